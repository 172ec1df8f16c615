/** Prints a report on one datum: each violation, and the spans of the datum that it is about. */
import { readFileSync } from "node:fs";
import type { Datum, ProvenanceSpan, Report, Violation } from "./schemas.js";

function words(span: ProvenanceSpan): string {
  const end = (span.offset ?? 0) + span.length;
  switch (span.type) {
    case "prompt":
      return `prompt of ${span.sequence_id} up to ${end}`;
    case "sampled":
      return `sampled by ${span.sequence_id} up to ${end}`;
    default:
      return unknownKind(span);
  }
}

/** A kind of span that `words` does not know makes this call a type error. */
function unknownKind(span: never): string {
  throw new Error(`unknown span ${JSON.stringify(span)}`);
}

function place(violation: Violation): string {
  const { index, field } = violation;
  if (index === null) return field ?? "dataset";
  return `${field}[${typeof index === "number" ? index : index.join(", ")}]`;
}

const [reportFile, datumFile] = process.argv.slice(2) as [string, string];
const report: Report = JSON.parse(readFileSync(reportFile, "utf8"));
const datum: Datum = JSON.parse(readFileSync(datumFile, "utf8"));
console.log(report.valid ? "valid" : "invalid");
for (const violation of report.violations) {
  console.log(`${violation.severity} ${violation.code} at ${place(violation)}`);
}
for (const span of datum.loss_fn_input_spans ?? []) console.log(words(span));
