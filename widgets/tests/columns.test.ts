import { Graphviz } from "@hpcc-js/wasm-graphviz";
import { beforeAll, expect, test } from "vitest";
import { contentsOf, edgeKey, groupsToOpen, type Contents } from "../src/graph/contents";
import { GroupTree } from "../src/graph/groups";
import { makeStructure, type Structure } from "../src/graph/structure";
import { Arrangement } from "../src/layout/arrangement";
import { readLayout, writeDot } from "../src/layout/dot";
import type { Layouts } from "../src/layout/layouts";
import type { Layout } from "../src/layout/types";
import { last } from "./made";

let graphviz: Graphviz;
beforeAll(async () => {
  graphviz = await Graphviz.load();
});

async function lay(structure: Structure): Promise<[Contents, Layout]> {
  const tree = new GroupTree(structure, "device");
  const contents = contentsOf(tree, groupsToOpen(tree, 100));
  const layouts = {
    ready: true,
    abandon: () => undefined,
    lay: (part: Contents) =>
      Promise.resolve(readLayout(graphviz.layout(writeDot(part, "down"), "json0" as "json", "dot"), part, "down")),
  } as unknown as Layouts;
  return [contents, (await last(new Arrangement(layouts).anew(contents)))!];
}

/** A chain over devices: two nodes on each, in an order that is not that of their numbers. */
function chain(devices: readonly string[]): Structure {
  const nodes = devices.flatMap((device, i) =>
    ["exp", "tanh"].map((op) => ({ op, name: `${op}_${i}`, kind: "op", device })));
  const edges = nodes.map((_, i) => [i - 1, i] as const);
  return makeStructure(nodes, [...edges, [nodes.length - 1, -1]], { inputs: ["x: f32[2]"], outputs: ["f32[2]"] });
}

test("devices are columns in their order, which begin at one height", async () => {
  const [, layout] = await lay(chain(["cpu:2", "cpu:0", "cpu:10", "cpu:1"]));
  const frames = ["cpu:0", "cpu:1", "cpu:2", "cpu:10"].map((name) => layout.clusters.get(`/device:${name}`)!);
  frames.slice(1).forEach((frame, i) => {
    expect(frame.x).toBeGreaterThan(frames[i]!.x + frames[i]!.width + 10);
    expect(frame.y).toBeCloseTo(frames[0]!.y);
  });
});

test("what a graph takes and gives is in the column where it is used, and was made", async () => {
  const [, layout] = await lay(chain(["cpu:1", "cpu:0"]));
  const [x, result] = [layout.boxes.get("input0")!, layout.boxes.get("output0")!];
  const [first, second] = [layout.clusters.get("/device:cpu:0")!, layout.clusters.get("/device:cpu:1")!];
  expect(x.x).toBeGreaterThan(second.x);
  expect(result.x).toBeLessThan(first.x + first.width);
});

test("every edge has a path, and those of one device keep that of its layout", async () => {
  const [contents, layout] = await lay(chain(["cpu:0", "cpu:1"]));
  for (const edge of contents.edges) expect(layout.edges.get(edgeKey(edge)), edgeKey(edge)).toMatch(/^M.*C/);
  const [from, to] = [layout.boxes.get("n2")!, layout.boxes.get("n3")!];
  const [x, y] = /^M([-\d.]+),([-\d.]+)/.exec(layout.edges.get("n2>n3")!)!.slice(1).map(Number);
  expect(x).toBeCloseTo(from.x, 0);
  expect(y).toBeLessThan(to.y);
});

test("the parts of a training step are one below the other on each device", async () => {
  const nodes = ["cpu:0", "cpu:1"].map((device, i) => ({ op: "matmul", name: `m${i}`, kind: "op", device }));
  const back = [1, 0].map((i) => ({ op: "multiply", name: `g${i}`, kind: "op", device: `cpu:${i}`, forward: i }));
  const step = makeStructure([...nodes, ...back], [[0, 1], [1, 2], [2, 3], [0, 3]]);
  const [, layout] = await lay(step);
  for (const i of [0, 1]) {
    const phases = ["forward", "backward"].map((name) => layout.clusters.get(`/device:cpu:${i}/phase:${name}`)!);
    expect(phases[1]!.y).toBeGreaterThanOrEqual(phases[0]!.y + phases[0]!.height);
  }
});
