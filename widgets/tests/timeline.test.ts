import { beforeEach, expect, test, vi } from "vitest";
import { Feed } from "../src/feed/feed";
import { binsOf, labelsOf, percentile, ticksOf } from "../src/views/step_histogram";
import { keyOf } from "../src/views/timeline_key";
import { TimelineRows } from "../src/views/timeline_rows";
import { FakeModel, message } from "./made";

const TABLES = [
  ["names", "rows", 1, [["name", "u4"], ["text", "text"]]],
  ["timeline", "log", 0, [["executable", "u4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"]]],
  ["regions", "log", 0, [["executable", "u4"], ["region", "u4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"], ["device", "u4"]]],
  ["moves", "log", 0, [["executable", "u4"], ["node", "i4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"], ["origin", "u4"], ["device", "u4"], ["bytes", "f8"]]],
  ["trail", "log", 0, [["time", "f8"], ["thread", "f8"], ["executable", "u4"], ["node", "i4"]]],
  ["threads", "rows", 1, [["thread", "f8"], ["name", "u4"]]],
  ["curve", "rows", 2, [["executable", "u4"], ["start", "f8"], ["count", "u4"], ["mean", "f4"]]],
  ["executables", "rows", 1, [["executable", "u4"], ["name", "u4"]]],
  ["retraces", "log", 0, [["name", "u4"], ["reason", "u4"], ["start", "f8"], ["seconds", "f4"]]],
  ["tasks", "log", 0, [["task", "u4"], ["health", "u4"], ["time", "f8"]]],
] as const; // prettier-ignore

const NAMES = ["cpu:0", "cpu:1", "MainThread", "eagerflow-loader", "read", "the first call", "label: another text"];

class Model extends FakeModel {
  override get(name: string): unknown {
    return name === "version" ? 1 : TABLES;
  }
}

let model: Model;
let feed: Feed;
beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", () => 0);
  model = new Model();
  feed = Feed.of(model);
  model.say(message(1, 0, [["u4", NAMES.map((_, i) => i)], ["text", NAMES]], true));
});

function say(sequence: number, table: number, cells: readonly (readonly number[])[]): void {
  const types = TABLES[table]![3].map(([, type]) => type);
  model.say(message(sequence, table, types.map((type, i) => [type, cells.map((row) => row[i]!)] as const)));
}

test("the newest steps are those of one function, or of all", () => {
  say(2, 1, [[1, 0, 1, 77], [2, 1, 1.5, 77], [1, 2, 4, 77]]);
  const rows = new TimelineRows(feed);
  expect(rows.newest(1)).toEqual([1, 2]);
  expect(rows.newest(0)).toEqual([1, 0.5, 2]);
});

test("lanes are those of devices, then threads, and none goes while one reads", () => {
  say(2, 1, [[1, 0, 1, 77]]);
  const rows = new TimelineRows(feed);
  expect(rows.lanes(0, 2).map((l) => l.label)).toEqual(["thread 1"]);
  say(3, 2, [[1, 4, 0.1, 0.2, 77, 1], [1, 5, 0.3, 0.4, 77, 0]]);
  say(4, 3, [[1, 9, 0.2, 0.3, 77, 1, 0, 800]]);
  expect(rows.lanes(0, 2).map((l) => l.label)).toEqual(["cpu:0", "cpu:1", "thread 1"]);
  const later = rows.lanes(100, 110);
  expect(later.map((l) => [l.label, l.spans.length])).toEqual([["cpu:0", 0], ["cpu:1", 0], ["thread 1", 0]]);
  const [move] = rows.moves(0, 2);
  expect(rows.text(move!)).toBe("cpu:1 → cpu:0: 800 B, 100 ms");
});

test("glances at one node, one after the other, are one span", () => {
  say(2, 4, [[0.0, 5, 1, 3], [0.02, 5, 1, 3], [0.04, 5, 1, 4], [5, 5, 1, 4]]);
  const [lane] = new TimelineRows(feed).lanes(0, 10);
  expect(lane!.spans.map((s) => [s.node, s.start, s.stop])).toEqual([
    [3, 0, 0.02], [4, 0.04, 0.041], [4, 5, 5.001],
  ]); // prettier-ignore
});

test("what is chosen in one view is told to all others, once", () => {
  const told: unknown[] = [];
  const end = feed.onChoice((chosen) => told.push(chosen));
  feed.choose({ executable: 1, node: 3 });
  feed.choose({ executable: 1, node: 3 });
  feed.choose(null);
  end();
  feed.choose({ executable: 1, node: 4 });
  expect(told).toEqual([{ executable: 1, node: 3 }, null]);
});

test("threads have their names, and what a runner runs has a lane of its own", () => {
  say(2, 1, [[1, 0, 1, 77], [2, 0, 1, 78], [3, 0, 1, 0], [1, 1, 2, 79]]);
  say(3, 5, [[77, 2], [78, 3]]);
  say(4, 7, [[3, 4]]);
  const lanes = new TimelineRows(feed).lanes(0, 2);
  expect(lanes.map((l) => l.label)).toEqual(["main thread", "loader", "runner read", "thread 3"]);
});

test("seconds in which more steps ran than were told say how many, and how busy they were", () => {
  say(2, 1, [[1, 0, 0.001, 77]]);
  say(3, 6, [[1, 0, 500, 0.001], [1, 9, 10, 0.001], [2, 0, 7, 0.1]]);
  const rows = new TimelineRows(feed);
  const [lane] = rows.lanes(0, 5);
  expect(lane!.busy).toMatchObject([{ executable: 1, start: 0, stop: 1, count: 500 }]);
  expect(rows.text(lane!.busy[0]!)).toBe("500 steps of graph in 1.0 s, 50 % of it");
});

test("a first call is told from a retrace", () => {
  say(2, 8, [[4, 5, 1, 0.25], [4, 6, 3, 0.5]]);
  const rows = new TimelineRows(feed);
  expect(rows.traces(0, 2).map((t) => [t.isFirst, rows.text(t)])).toEqual([
    [true, "first call of read, traced in 250 ms"],
  ]);
  expect(rows.traces(2, 4).map((t) => [t.isFirst, rows.text(t)])).toEqual([
    [false, "read retraced in 500 ms: label: another text"],
  ]);
});

test("the distribution of step times has every step in a bin, and the longest in the last", () => {
  const times = [1e-3, 1e-3, 2e-3, 1];
  const { least, most, counts } = binsOf(times, 10);
  expect([least, most]).toEqual([1e-3, 1]);
  expect(counts).toEqual([2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
  expect(percentile(times, 0.5)).toBe(2e-3);
});

test("equal step times are one bar in the middle", () => {
  const { counts } = binsOf([1e-3, 1e-3, 1e-3], 9);
  expect(counts.map((n, i) => [n, i]).filter(([n]) => n)).toEqual([[3, 4]]);
});

test("what marks of a distribution say is neither over another text nor crossed by a line", () => {
  for (const places of [[10, 300, 500], [10, 40, 60], [300, 590, 599], [560, 580, 599], [500, 550, 599], [597, 598, 599]]) {
    const marks = places.map((at, i) => ({ text: "", at, wide: 75 - 10 * i }));
    const labels = labelsOf(marks, 600);
    labels.forEach(({ left, row }, i) => {
      const { wide } = marks[i]!;
      expect(left >= 0 && left + wide <= 600).toBe(true);
      marks.forEach((other, j) => {
        if (i === j) return;
        const isOver = row === labels[j]!.row && left < labels[j]!.left + other.wide && labels[j]!.left < left + wide;
        const isCrossed = labels[j]!.row <= row && left < other.at && other.at < left + wide;
        expect([places, i, j, isOver || isCrossed]).toEqual([places, i, j, false]);
      });
    });
  }
});

test("a lane of a device says when its task was not there", () => {
  model.say(message(2, 0, [["u4", [7, 8, 9, 10, 11]], ["text", ["worker:1", "worker:1/cpu:0", "lost", "ready", "suspect"]]]));
  say(3, 2, [[1, 4, 0.1, 0.2, 0, 8], [1, 4, 0.1, 0.2, 0, 0]]);
  say(4, 9, [[7, 10, 0], [7, 9, 2], [7, 10, 5], [7, 11, 7]]);
  const rows = new TimelineRows(feed);
  const [own, remote] = rows.lanes(0, 8);
  expect(own!.away).toEqual([]);
  expect(remote!.label).toBe("worker:1/cpu:0");
  expect(remote!.away.map((a) => [a.health, a.start, a.stop])).toEqual([["lost", 2, 5], ["suspect", 7, Infinity]]);
  expect(rows.text(remote!.away[0]!)).toBe("worker:1: lost for 3.0 s");
  expect(rows.lanes(3, 4)[1]!.away.map((a) => a.health)).toEqual(["lost"]);
});

test("times at the axis are round, and some between them are labelled where round ones are few", () => {
  const of = (least: number, most: number): number[] => {
    const bins = { least, most, counts: [] };
    const x = (time: number): number => (Math.log(time / least) / Math.log(most / least)) * 1000;
    return ticksOf(bins, x, 1000).map((time) => Math.round(time * 1e6));
  };
  expect(of(300e-6, 7e-3)).toEqual([500, 1000, 2000, 5000]);
  expect(of(550e-6, 1.9e-3)).toEqual([600, 700, 800, 900, 1000, 1500]);
});

test("the colours of steps and waits are explained where they occur", () => {
  say(2, 1, [[1, 0, 1, 77]]);
  const rows = new TimelineRows(feed);
  expect(keyOf(rows.lanes(0, 2), 0, "")).toEqual([["others", "steps"]]);
  expect(keyOf(rows.lanes(0, 2), 1, "train")).toEqual([["shown", "steps of train"]]);
  expect(keyOf(rows.lanes(0, 2), 2, "make")).toEqual([["others", "other steps"]]);
  expect(keyOf(rows.lanes(5, 6), 1, "train")).toEqual([]);
});
