// Annotations as GitHub's own toolkit writes them: [[level, message, properties], ...] on stdin.
import { readFileSync } from "node:fs";
import * as core from "@actions/core";

for (const [level, message, properties] of JSON.parse(readFileSync(0, "utf8"))) {
  core[level](message, properties);
}
