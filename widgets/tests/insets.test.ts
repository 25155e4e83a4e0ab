import { Graphviz } from "@hpcc-js/wasm-graphviz";
import { beforeAll, expect, test, vi } from "vitest";
import { contentsOf, edgeKey, groupsToOpen, type Contents } from "../src/graph/contents";
import { GroupTree, type Group } from "../src/graph/groups";
import type { Structure } from "../src/graph/structure";
import { Arrangement } from "../src/layout/arrangement";
import { readLayout, writeDot } from "../src/layout/dot";
import type { Layouts } from "../src/layout/layouts";
import { frameOf, type Layout, type Placed } from "../src/layout/types";
import { last, layers, nested, trainingStep, wideStep } from "./made";

let graphviz: Graphviz;
beforeAll(async () => {
  graphviz = await Graphviz.load();
});

/** Graphviz in this thread, or none. */
function engine(kind: Layout["engine"]): Layouts {
  const lay = (contents: Contents): Layout =>
    readLayout(graphviz.layout(writeDot(contents, "down"), "json0" as "json", "dot"), contents, "down");
  const has = kind === "graphviz";
  return {
    ready: has, abandon: () => undefined, lay: (c: Contents) => Promise.resolve(has ? lay(c) : null),
  } as unknown as Layouts; // prettier-ignore
}

/** What is seen of a picture of 900 by 440 pixels that is moved and enlarged. */
function seen({ left, top, width, height }: Layout, zoom: number): Placed {
  const [wide, high] = [900 / zoom, 440 / zoom];
  return { x: left + (width - wide) / 2, y: top + (height - high) / 3, width: wide, height: high };
}

function far(before: Layout, after: Layout, view: Placed): number {
  const both = [...before.boxes].filter(([id]) => after.boxes.has(id));
  return Math.max(0, ...both.map(([id, a]) => {
    const b = after.boxes.get(id)!;
    return Math.hypot((a.x - b.x) / view.width, (a.y - b.y) / view.height);
  })); // prettier-ignore
}

function meet(a: Placed, b: Placed): boolean {
  return Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1
    && Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 1; // prettier-ignore
}

function holds(outer: Placed, inner: Placed): boolean {
  return inner.x > outer.x - 1 && inner.y > outer.y - 1
    && inner.x + inner.width < outer.x + outer.width + 1
    && inner.y + inner.height < outer.y + outer.height + 1; // prettier-ignore
}

/** Boxes that lie on others, boxes and frames outside of what they are in, and frames on others' boxes. */
function faults(contents: Contents, layout: Layout): string[] {
  const messages: string[] = [];
  const frames = contents.boxes.map((b) => [b, frameOf(layout.boxes.get(b.id)!)] as const);
  frames.forEach(([a, at], i) => {
    for (const [b, other] of frames.slice(0, i)) if (meet(at, other)) messages.push(`${a.id} on ${b.id}`);
    const home = layout.clusters.get(a.home.id);
    if (home && !holds(home, at)) messages.push(`${a.id} outside`);
  });
  for (const group of contents.clusters) {
    const frame = layout.clusters.get(group.id)!;
    const around = layout.clusters.get(group.parent!.id);
    if (around && !holds(around, frame)) messages.push(`${group.id} outside`);
    for (const [box, at] of frames) if (!isIn(box.home, group) && meet(frame, at)) messages.push(`${group.id} on ${box.id}`);
  }
  return messages;
}

/** Edges that do not begin and end at their boxes. */
function loose(contents: Contents, layout: Layout): string[] {
  return contents.edges.filter((edge) => {
    const points = layout.edges.get(edgeKey(edge))!.split(/[MC ]/).filter(Boolean);
    return [[points[0]!, edge.from] as const, [points[points.length - 1]!, edge.to] as const].some(([text, box]) => {
      const [x = NaN, y = NaN] = text.split(",").map(Number);
      const at = frameOf(layout.boxes.get(box.id)!);
      const room = 12 * layout.boxes.get(box.id)!.scale; // of arrows
      return !holds({ x: at.x - room, y: at.y - room, width: at.width + 2 * room, height: at.height + 2 * room },
        { x, y, width: 0, height: 0 });
    });
  }).map(edgeKey);
} // prettier-ignore

function isIn(home: Group, group: Group): boolean {
  for (let g: Group | null = home; g; g = g.parent) if (g === group) return true;
  return false;
}

const GRAPHS: Readonly<Record<string, () => Structure>> = {
  "a training step": trainingStep,
  "a step of 12 layers": () => wideStep(12),
  "40 layers": () => layers(40, 6),
  "a transformer": () => nested(6, ["attention/query", "attention/key", "mlp/up", "mlp/down"], 5),
  "one scope of 400 nodes": () => layers(1, 400),
};

test.each(Object.keys(GRAPHS))("each group of %s opens, and other boxes stay about where they are", async (name) => {
  const tree = new GroupTree(GRAPHS[name]!(), "scope");
  const arrangement = new Arrangement(engine("graphviz"));
  let open = groupsToOpen(tree, 24);
  let contents = contentsOf(tree, open);
  let layout = (await last(arrangement.anew(contents)))!;
  for (let count = 0; count < 12 && contents.boxes.length < 250; count++) {
    const closed = contents.boxes.filter((b) => b.group);
    if (!closed.length) break;
    open = new Set([...open, closed[(count * 7) % closed.length]!.group!.id]);
    contents = contentsOf(tree, open);
    const view = seen(layout, [1, 0.6, 1.8][count % 3]!);
    const next = (await last(arrangement.next(contents, view)))!;
    expect(far(layout, next, view)).toBeLessThanOrEqual(0.2 + 1e-9);
    expect(faults(contents, next)).toEqual([]);
    expect(loose(contents, next)).toEqual([]);
    layout = next;
  }
  expect(open.size).toBeGreaterThan(1);
});

test("what was opened last closes to what was before, whatever was opened meanwhile and closed", async () => {
  const tree = new GroupTree(nested(3, ["a", "b"], 4), "scope");
  const arrangement = new Arrangement(engine("layered"));
  const [root, net] = ["", "/scope:net"];
  const first = contentsOf(tree, new Set([root, net]));
  const before = (await last(arrangement.anew(first)))!;
  const view = seen(before, 1);
  const block = first.boxes[1]!.group!.id;
  const opened = (await last(arrangement.next(contentsOf(tree, new Set([root, net, block])), view)))!;
  expect(opened.clusters.has(block)).toBe(true);
  await last(arrangement.next(contentsOf(tree, new Set([root, net, block, `${block}/scope:a`])), view));
  expect(await last(arrangement.next(first, view))).toBe(before);
});

test("a group that others were opened after closes in its place, and nothing else moves", async () => {
  const tree = new GroupTree(nested(3, ["a", "b"], 4), "scope");
  const arrangement = new Arrangement(engine("graphviz"));
  const [one, two] = [`/scope:net/scope:block0`, `/scope:net/scope:block1`];
  const contents = (...open: string[]): Contents => contentsOf(tree, new Set(["", "/scope:net", ...open]));
  const view = seen((await last(arrangement.anew(contents())))!, 1);
  await last(arrangement.next(contents(one), view));
  const both = (await last(arrangement.next(contents(one, two), view)))!;
  const after = (await last(arrangement.next(contents(two), view)))!;
  expect(far(both, after, view)).toBe(0);
  expect(holds(both.clusters.get(one)!, frameOf(after.boxes.get(one)!))).toBe(true);
  expect(faults(contents(two), after)).toEqual([]);
});

test("what is opened is as large as there is room for, and not larger than its box was", async () => {
  const tree = new GroupTree(nested(1, ["a", "b", "c"], 30), "scope");
  const arrangement = new Arrangement(engine("graphviz"));
  const first = contentsOf(tree, new Set(["", "/scope:net", "/scope:net/scope:block0"]));
  const before = (await last(arrangement.anew(first)))!;
  const a = "/scope:net/scope:block0/scope:a";
  const open = contentsOf(tree, new Set(["", "/scope:net", "/scope:net/scope:block0", a]));
  const scale = async (zoom: number): Promise<number> => {
    await last(arrangement.anew(first));
    return (await last(arrangement.next(open, seen(before, zoom))))!.clusters.get(a)!.scale;
  };
  const [near, far, whole] = [await scale(4), await scale(0.5), await scale(0.02)];
  expect(near).toBeLessThan(far);
  expect(far).toBeLessThan(whole);
  expect(whole).toBe(1);
});

test("of two that are asked for the first gives nothing", async () => {
  const tree = new GroupTree(layers(3, 2), "scope");
  const arrangement = new Arrangement(engine("graphviz"));
  const contents = contentsOf(tree, new Set([""]));
  const both = [last(arrangement.anew(contents)), last(arrangement.anew(contents))];
  const [first, second] = await Promise.all(both);
  expect(first).toBeNull();
  expect(second?.boxes.size).toBe(contents.boxes.length);
});

test("where Graphviz takes longer than readers wait there is another layout, and later that of Graphviz", async () => {
  vi.useFakeTimers();
  try {
    const graphviz = engine("graphviz");
    const late = async (contents: Contents): Promise<Layout | null> => {
      await new Promise((resolve) => setTimeout(resolve, 20_000));
      return graphviz.lay(contents, "down");
    };
    const arrangement = new Arrangement({ ready: true, abandon: () => undefined, lay: late } as unknown as Layouts);
    const versions = async (of: AsyncIterable<Layout>): Promise<Layout[]> => {
      const layouts: Layout[] = [];
      const all = (async () => { for await (const version of of) layouts.push(version); })(); // prettier-ignore
      await vi.advanceTimersByTimeAsync(3000);
      expect(layouts.map((l) => l.engine)).toHaveLength(1);
      await vi.advanceTimersByTimeAsync(20_000);
      await all;
      return layouts;
    };
    const tree = new GroupTree(nested(3, ["a", "b"], 4), "scope");
    const contents = (...open: string[]): Contents => contentsOf(tree, new Set(["", "/scope:net", ...open]));
    const [soon, whole] = await versions(arrangement.anew(contents()));
    expect([soon!.engine, whole!.engine]).toEqual(["layered", "graphviz"]);
    const view = seen(whole!, 1);
    for (const opened of await versions(arrangement.next(contents("/scope:net/scope:block0"), view))) {
      expect(far(whole!, opened, view)).toBeLessThanOrEqual(0.2 + 1e-9);
    }
    expect(await last(arrangement.next(contents(), view))).toBe(whole);
  } finally {
    vi.useRealTimers();
  }
});
