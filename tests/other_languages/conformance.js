/** Prints, by name, what ajv in its strictest mode says about each conformance vector that has datums. */
import { readFileSync, readdirSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";

const folder = process.argv[2];
const read = (file) => JSON.parse(readFileSync(`${folder}/${file}`, "utf8"));
const strict = { strict: true, strictTypes: true, strictTuples: true, strictRequired: true };
const ajv = new Ajv2020(strict);

const schemas = readdirSync(folder).filter((file) => file.endsWith(".json"));
const types = schemas.filter((file) => !["openapi.json", "rules.json"].includes(file));
const validate = Object.fromEntries(types.map((file) => [file, ajv.compile(read(file))]));

const verdicts = {};
for (const file of readdirSync(`${folder}/conformance`)) {
  for (const { name, data } of read(`conformance/${file}`)) {
    if (data.datums === undefined) continue;
    verdicts[name] = data.datums.every((datum) => validate["datum.json"](datum))
      && data.sequences.every((sequence) => validate["sequence.json"](sequence));
  }
}
console.log(JSON.stringify(verdicts));
