import { beforeAll, expect, test, vi } from "vitest";
import { Feed } from "../src/feed/feed";
import { decode, readSchemas } from "../src/feed/tables";
import { Layouts } from "../src/layout/layouts";
import { FakeModel, message } from "./made";

beforeAll(() => {
  vi.stubGlobal("requestAnimationFrame", () => 0);
});

const NAMES = (sequence: number, number: number, text: string, whole = false): DataView =>
  message(sequence, 0, [["u4", [number]], ["text", [text]]], whole); // prettier-ignore

test("a message that begins anywhere in a buffer is read", () => {
  const bytes = new Uint8Array(message(7, 0, [["u4", [1, 2, 3]], ["text", ["a", "", "ü…"]]]).buffer);
  const shifted = new Uint8Array(bytes.length + 3);
  shifted.set(bytes, 3);
  const schemas = readSchemas(new FakeModel().get("tables"));
  const read = decode(new DataView(shifted.buffer, 3), schemas);
  expect(read.sequence).toBe(7);
  const [rows] = read.tables.values();
  expect(rows).toEqual([{ number: 1, text: "a" }, { number: 2, text: "" }, { number: 3, text: "ü…" }]);
});

test("what is no message is refused", () => {
  expect(() => decode(new DataView(new ArrayBuffer(8)), [])).toThrow("not a message");
});

test("rows replace those of the same key, a log grows, a list is replaced", () => {
  const model = new FakeModel();
  const feed = Feed.of(model);
  model.say(NAMES(1, 4, "before", true));
  model.say(NAMES(2, 4, "after"));
  model.say(message(3, 1, [["u4", [1]], ["f8", [0.5]]]));
  model.say(message(4, 1, [["u4", [1]], ["f8", [0.75]]]));
  model.say(message(5, 2, [["f8", [1, 2]]]));
  model.say(message(6, 2, [["f8", [3]]]));
  expect([...feed.table("names")]).toEqual([{ number: 4, text: "after" }]);
  expect(feed.log("timeline").map((row) => row["start"])).toEqual([0.5, 0.75]);
  expect(feed.list("places")).toEqual([{ thread: 3 }]);
});

test("who misses a message asks for all once, and takes nothing until it comes", () => {
  const model = new FakeModel();
  const feed = Feed.of(model);
  model.say(NAMES(1, 1, "one", true));
  model.say(NAMES(3, 1, "three"));
  model.say(NAMES(4, 1, "four"));
  expect(model.sent.filter((m) => m["resync"])).toHaveLength(1);
  expect([...feed.table("names")][0]).toEqual({ number: 1, text: "one" });
  model.say(NAMES(5, 2, "all", true));
  expect([...feed.table("names")]).toEqual([{ number: 2, text: "all" }]);
});

test("messages are acknowledged now and then", () => {
  const model = new FakeModel();
  Feed.of(model);
  for (let i = 1; i <= 20; i++) model.say(NAMES(i, i, "x", i === 1));
  expect(model.sent.filter((m) => "ack" in m)).toEqual([{ ack: 8 }, { ack: 16 }]);
});

test("a kernel that is gone is said, and nothing is sent to it", () => {
  const model = new FakeModel();
  const feed = Feed.of(model);
  model.say(NAMES(1, 1, "x", true));
  expect(feed.status).toBe("live");
  model.end();
  expect(feed.status).toBe("lost");
  const before = model.sent.length;
  feed.look(1, 2);
  expect(model.sent).toHaveLength(before);
});

test("a kernel that ends before it sent what lays graphs out keeps no other from it", async () => {
  const [gone, there] = [new FakeModel(), new FakeModel()];
  const first = new Layouts(Feed.of(gone));
  const second = new Layouts(Feed.of(there));
  const prepared = [first.prepare(), second.prepare()];
  gone.end();
  await vi.waitFor(() => { expect(there.sent).toContainEqual({ asset: "layout" }); }); // prettier-ignore
  Feed.of(there).hear({ asset: "layout" }, [new DataView(new TextEncoder().encode("worker").buffer)]);
  await Promise.all(prepared);
  expect(second.ready).toBe(true);
});

test("all views of a model have one feed", () => {
  const model = new FakeModel();
  expect(Feed.of(model)).toBe(Feed.of(model));
  expect(Feed.of(new FakeModel())).not.toBe(Feed.of(model));
});
