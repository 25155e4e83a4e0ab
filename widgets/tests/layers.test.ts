import { expect, test } from "vitest";
import { contentsOf, groupsToOpen } from "../src/graph/contents";
import { GroupTree } from "../src/graph/groups";
import { elements, Layers, overlapText } from "../src/graph/layers";
import { makeStructure, type Structure } from "../src/graph/structure";

/** Two layers, their derivatives, the update of one of them, and a loss. */
function step(): Structure {
  const of = { kind: "op", device: "cpu:0" };
  return makeStructure([
    { ...of, op: "read", name: "w", scope: "net/a", layer: "net/a", resources: "a.weight: f32[4,2]", type: "f32[4,2]@cpu:0", bytes: 32 },
    { ...of, op: "matmul", name: "first", scope: "net/a", layer: "net/a", type: "f32[8,2]@cpu:0", bytes: 64 },
    { ...of, op: "exp", name: "second", scope: "net/b", layer: "net/b", type: "f32[8,2]@cpu:0", bytes: 64 },
    { ...of, op: "mean", name: "loss", type: "f32[]@cpu:0", bytes: 4 },
    { ...of, op: "multiply", name: "dsecond", scope: "net/b", layer: "net/b", forward: 2, type: "f32[8,2]@cpu:0", bytes: 64 },
    { ...of, op: "matmul", name: "dfirst", scope: "net/a", layer: "net/a", forward: 1, type: "f32[4,2]@cpu:0", bytes: 32 },
    { ...of, op: "assign_sub", name: "update", scope: "a.weight", layer: "net/a", resources: "a.weight: f32[4,2]", type: "f32[4,2]@cpu:0", bytes: 32 },
  ], [[-1, 1], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [3, -1]],
  { inputs: ["x: f32[8,4]"], outputs: ["f32[]"] }); // prettier-ignore
}

test("a layer costs what its ops, their derivatives and its updates take together", () => {
  const layers = new Layers(step());
  const shares = [0, 0.1, 0.3, 0.05, 0.2, 0.25, 0.1];
  const costs = layers.costs(shares.map((share, node) => ({ node, share, seconds: share / 10 })));
  expect(costs.map(({ name, share }) => [name, Number(share.toFixed(2))])).toEqual([["net/b", 0.5], ["net/a", 0.45], ["", 0.05]]);
  const a = costs[1]!;
  expect([a.phases.forward, a.phases.backward, a.phases.update]).toEqual([0.1, 0.25, 0.1]);
  expect(a.node).toBe(5); // its slowest
  const parts = layers.parts(costs);
  expect([parts.forward, parts.backward, parts.update].map((p) => p.toFixed(2))).toEqual(["0.45", "0.45", "0.10"]);
});

test("parts that add up to more than a step are explained", () => {
  const costsOf = (shares: readonly number[]): string => {
    const rows = shares.map((share, node) => ({ node, share, seconds: share / 10 }));
    return overlapText(new Layers(step()).costs(rows));
  };
  expect(costsOf([0, 0.1, 0.3, 0.05, 0.2, 0.25, 0.1])).toBe("");
  expect(costsOf([0, 0.2, 0.3, 0.05, 0.2, 0.25, 0.1])).toBe("nodes run at the same time, so parts add up to 110 %");
});

test("layers without a time are in their order, and what is no layer comes last", () => {
  const of = { kind: "op", device: "cpu:0", type: "f32[2]@cpu:0" };
  const nodes = ["", "net/b", "net/a"].map((layer) => ({ ...of, op: "exp", name: `of ${layer}`, scope: layer, layer }));
  const costs = new Layers(makeStructure(nodes, [], { inputs: [], outputs: [] })).costs([]);
  expect(costs.map(({ name, place }) => [name, place])).toEqual([["net/b", 1], ["net/a", 2], ["", 0]]);
});

test("a layer has parameters, the size of its values, a type and a place", () => {
  const told = new Layers(step()).all.map(({ name, place, parameters, bytes, gives }) => [name, place, parameters, bytes, gives]);
  expect(told).toEqual([
    ["net/a", 1, 8, 160, "f32[8,2]"], ["net/b", 2, 0, 128, "f32[8,2]"], ["", 0, 0, 4, "f32[]"],
  ]); // prettier-ignore
  const types = ["f32[4,2]", "f32[]", "f32[n,2]", "fifo queue", "f32[16], not trainable"];
  expect(types.map(elements)).toEqual([8, 1, -1, 0, 0]);
});

test("boxes of a graph say the type that they hand on, and where several are the device", () => {
  const tree = new GroupTree(step(), "scope");
  const { boxes } = contentsOf(tree, new Set(["", "/phase:forward", "/phase:forward/scope:net"]));
  const lines = boxes.map((box) => box.lines.join(" "));
  expect(lines).toContain("a f32[8,2]");
  expect(lines).toContain("mean loss f32[]");
  const two = makeStructure([
    { op: "exp", name: "exp", device: "cpu:0", type: "f32[2]@cpu:0" },
    { op: "exp", name: "exp_1", device: "cpu:1", type: "f32[2]@cpu:1, f32[3]@cpu:1" },
  ]); // prettier-ignore
  expect(new GroupTree(two, "scope").typeOf(1)).toBe("f32[2]@cpu:1");
  expect(new GroupTree(two, "device").typeOf(1)).toBe("f32[2]");
});

test("of a training step the forward pass alone can be opened", () => {
  const tree = new GroupTree(step(), "scope");
  const kinds = contentsOf(tree, groupsToOpen(tree, 20, false, true)).boxes.map((box) => box.lines[0]);
  expect(kinds).toContain("backward");
  expect(kinds).not.toContain("forward");
});
