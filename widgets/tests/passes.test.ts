import { expect, test } from "vitest";
import { makeStructure } from "../src/graph/structure";
import { changesOf } from "../src/passes/stages";

test("what a pass did is told by the names of nodes, and by its report", () => {
  const before = makeStructure([
    { name: "kept", op: "exp" }, { name: "merged", op: "exp" }, { name: "folded", op: "add" },
    { name: "given", op: "sin" },
  ]); // prettier-ignore
  const after = makeStructure([
    { name: "kept", op: "exp" }, { name: "folded", op: "constant", value: "3" },
    { name: "given", op: "sin" }, { name: "made", op: "square" },
  ]); // prettier-ignore
  const lines = ["donate: 1 change, 4 -> 4 nodes", "  %given goes into the buffer of %kept"];
  const [old, young] = changesOf({ name: "donate", lines, before, after });
  expect([...old]).toEqual([[1, "gone"], [2, "other"], [3, "other"]]);
  expect([...young]).toEqual([[1, "other"], [2, "other"], [3, "new"]]);
});
