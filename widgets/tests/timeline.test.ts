import { beforeEach, expect, test, vi } from "vitest";
import { Feed } from "../src/feed/feed";
import { TimelineRows } from "../src/views/timeline_rows";
import { FakeModel, message } from "./made";

const TABLES = [
  ["names", "rows", 1, [["name", "u4"], ["text", "text"]]],
  ["timeline", "log", 0, [["executable", "u4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"]]],
  ["regions", "log", 0, [["executable", "u4"], ["region", "u4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"], ["device", "u4"]]],
  ["moves", "log", 0, [["executable", "u4"], ["node", "i4"], ["start", "f8"], ["stop", "f8"], ["thread", "f8"], ["origin", "u4"], ["device", "u4"], ["bytes", "f8"]]],
  ["trail", "log", 0, [["time", "f8"], ["thread", "f8"], ["executable", "u4"], ["node", "i4"]]],
] as const; // prettier-ignore

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
  model.say(message(1, 0, [["u4", [0, 1]], ["text", ["cpu:0", "cpu:1"]]], true));
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
