import { Graphviz } from "@hpcc-js/wasm-graphviz";
import { expect, test } from "vitest";
import { boxNow, contentsOf, groupsToOpen, type Contents } from "../src/graph/contents";
import { GroupTree, trainingPhases, walk } from "../src/graph/groups";
import { makeStructure } from "../src/graph/structure";
import { readLayout, writeDot } from "../src/layout/dot";
import { layered } from "../src/layout/layered";
import type { Layout } from "../src/layout/types";
import { layers, trainingStep } from "./made";

const all = (tree: GroupTree): Set<string> => new Set([...walk(tree.root)].map((g) => g.id));

function labels(contents: Contents): string[] {
  return contents.boxes.map((b) => b.lines[0]!);
}

test("a training step has a forward pass, derivatives and an update", () => {
  const step = trainingStep();
  expect(trainingPhases(step)).toEqual(
    ["forward", "forward", "forward", "backward", "update", "update"]); // prettier-ignore
  const tree = new GroupTree(step, "scope");
  expect(tree.root.groups.map((g) => g.name)).toEqual(["forward", "backward", "update"]);
  expect(trainingPhases(layers(2, 2))).toBeNull();
});

test("closed groups are one box, constants are none", () => {
  const tree = new GroupTree(trainingStep(), "scope");
  const closed = contentsOf(tree, new Set([tree.root.id]));
  expect(labels(closed).sort()).toEqual(["backward", "forward", "result", "update", "x"]);
  const open = contentsOf(tree, all(tree));
  expect(labels(open).sort()).toEqual(["assign", "matmul", "multiply", "result", "subtract", "w", "x"]);
  expect(open.boxes.find((b) => b.lines[0] === "w")!.kind).toBe("variable");
  expect(open.boxOf[2]).toBeUndefined();
});

test("equal layers are folded, and few boxes are seen at first", () => {
  const tree = new GroupTree(layers(30, 4), "scope");
  expect([...walk(tree.root)].some((g) => g.name === "layer ×30")).toBe(true);
  const first = contentsOf(tree, groupsToOpen(tree, 36));
  expect(first.boxes.length).toBeLessThanOrEqual(36);
});

test("a scope with very many nodes is cut, whatever their number", () => {
  const flat = makeStructure(
    Array.from({ length: 5000 }, (_, i) => ({ op: "exp", name: `exp_${i}`, kind: "op" })));
  const tree = new GroupTree(flat, "scope");
  for (const group of walk(tree.root)) {
    expect(group.nodes.length + group.groups.length).toBeLessThanOrEqual(250);
  }
  expect(contentsOf(tree, groupsToOpen(tree, 36)).boxes.length).toBeLessThanOrEqual(60);
});

test("a body is in the group of its node, in a scope of its own", () => {
  const s = makeStructure([
    { op: "while_loop", name: "loop", kind: "loop", scope: "net" },
    { op: "exp", name: "exp", kind: "op", parent: 0, within: "body", scope: "net/inner" },
  ]);
  const tree = new GroupTree(s, "scope");
  expect(tree.homes[1]!.id).toBe("/scope:net/node:loop/body:body/scope:inner");
  const closed = contentsOf(tree, new Set(["", "/scope:net"]));
  expect(closed.boxes.map((b) => [b.kind, b.node])).toEqual([["loop", 0]]);
  expect(closed.boxOf[1]).toBe(closed.boxes[0]);
});

test("a queue is a box between who puts and who takes", () => {
  const s = makeStructure([
    { op: "dequeue", name: "dequeue", kind: "op", resources: "batches: fifo queue" },
    { op: "enqueue", name: "enqueue", kind: "op", resources: "losses: fifo queue" },
  ], [[0, 1]]); // prettier-ignore
  const tree = new GroupTree(s, "scope");
  const { edges } = contentsOf(tree, all(tree));
  const ways = edges.map((e) => `${e.from.lines[0]!}>${e.to.lines[0]!} ${e.kind}`).sort();
  expect(ways).toEqual(["batches>dequeue state", "dequeue>enqueue data", "enqueue>losses state"]);
});

test("a value with very many users has marks in place of edges", () => {
  const users = Array.from({ length: 25 }, (_, i) => ({ op: "exp", name: `exp_${i}`, kind: "op" }));
  const s = makeStructure(
    [{ op: "hub", name: "hub", kind: "op" }, ...users], users.map((_, i) => [0, i + 1])); // prettier-ignore
  const tree = new GroupTree(s, "scope");
  const { boxes, edges } = contentsOf(tree, all(tree));
  expect(edges).toHaveLength(0);
  expect(boxes.filter((b) => b.taken.length === 1)).toHaveLength(25);
});

test("bytes that go to another device are added up", () => {
  const s = makeStructure([
    { op: "exp", name: "a", kind: "op", device: "cpu:0", bytes: 100 },
    { op: "log", name: "b", kind: "op", device: "cpu:1", bytes: 8 },
    { op: "sin", name: "c", kind: "op", device: "cpu:1", bytes: 8 },
  ], [[0, 1], [0, 2], [1, 2]]); // prettier-ignore
  const tree = new GroupTree(s, "device");
  const { edges } = contentsOf(tree, new Set([""]));
  expect(edges.map((e) => [e.from.device, e.to.device, e.moved])).toEqual([["cpu:0", "cpu:1", 200]]);
});

function overlaps(layout: Layout): number {
  const boxes = [...layout.boxes.values()];
  const meet = (i: number, j: number): boolean => {
    const [a, b] = [boxes[i]!, boxes[j]!];
    return Math.abs(a.x - b.x) < (a.width + b.width) / 2 - 1 &&
      Math.abs(a.y - b.y) < (a.height + b.height) / 2 - 1; // prettier-ignore
  };
  return boxes.flatMap((_, i) => boxes.slice(0, i).filter((__, j) => meet(i, j))).length;
}

test("what is chosen stays so when boxes are closed and opened", () => {
  const tree = new GroupTree(layers(3, 2), "scope");
  const [closed, open] = [contentsOf(tree, new Set([tree.root.id])), contentsOf(tree, groupsToOpen(tree, 99))];
  const inner = open.boxOf[0]!;
  const again = contentsOf(tree, groupsToOpen(tree, 99));
  expect(boxNow(inner, again)).toBe(again.boxOf[0]);
  expect(boxNow(inner, closed)).toBe(closed.boxes[0]);
  expect(boxNow(closed.boxes[0]!, open)).toBe(inner);
});

test("Graphviz and the layout of our own place every box, none on another", async () => {
  const graphviz = await Graphviz.load();
  const tree = new GroupTree(trainingStep(), "scope");
  const contents = contentsOf(tree, all(tree));
  const text = graphviz.layout(writeDot(contents, "down"), "json0" as "json", "dot");
  for (const layout of [readLayout(text, contents, "down"), layered(contents)]) {
    expect([...layout.boxes.keys()].sort()).toEqual(contents.boxes.map((b) => b.id).sort());
    expect(overlaps(layout)).toBe(0);
    expect([...layout.edges.values()].every((path) => path.startsWith("M"))).toBe(true);
    expect([...layout.clusters.keys()].sort()).toEqual(contents.clusters.map((g) => g.id).sort());
    for (const box of contents.boxes) {
      const frame = layout.clusters.get(box.home.id);
      const at = layout.boxes.get(box.id)!;
      if (frame) expect(at.y > frame.y && at.y < frame.y + frame.height).toBe(true);
    }
  }
});

test("a derivative is drawn beside its op, from below to above", async () => {
  const s = makeStructure([
    { op: "exp", name: "a", kind: "op" },
    { op: "sin", name: "b", kind: "op" },
    { op: "mean", name: "c", kind: "op" },
    { op: "multiply", name: "dc", kind: "op", forward: 2 },
    { op: "multiply", name: "db", kind: "op", forward: 1 },
    { op: "multiply", name: "da", kind: "op", forward: 0 },
  ], [[-1, 0], [0, 1], [1, 2], [2, 3], [3, 4], [1, 4], [4, 5], [0, 5], [2, -1], [5, -2]],
  { inputs: ["x: f32[2]"], outputs: ["f32[]", "f32[2]"] }); // prettier-ignore
  const contents = contentsOf(new GroupTree(s, "scope"), all(new GroupTree(s, "scope")));
  const graphviz = await Graphviz.load();
  const layout = readLayout(graphviz.layout(writeDot(contents, "down"), "json0" as "json", "dot"), contents, "down");
  const at = (node: number): { x: number; y: number } => layout.boxes.get(`n${node}`)!;
  for (const [op, derivative] of [[0, 5], [1, 4], [2, 3]] as const) {
    expect(Math.abs(at(op).y - at(derivative).y)).toBeLessThan(1);
  }
  expect(at(0).y < at(1).y && at(1).y < at(2).y).toBe(true);
  const [, y] = /^M\S+?,(\S+?)C/.exec(layout.edges.get("n3>n4")!)!;
  expect(Math.abs(Number(y) - at(3).y)).toBeLessThan(22); // it begins where its arrow has no head
});

test("all groups are opened where there is room, folded ones too", () => {
  const tree = new GroupTree(layers(30, 4), "scope");
  expect(contentsOf(tree, groupsToOpen(tree, 400, true)).boxes).toHaveLength(120);
  expect(contentsOf(tree, groupsToOpen(tree, 100, true)).boxes.length).toBeLessThanOrEqual(100);
});

test("derivatives are told from what they are derived from", () => {
  const s = trainingStep();
  expect([1, 3, 4].map((node) => s.gradientOf(node))).toEqual(["", "matmul", ""]);
});
