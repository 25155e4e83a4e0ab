import { expect, test } from "vitest";
import type { Feed } from "../src/feed/feed";
import { Layouts } from "../src/layout/layouts";

test("a page asks for the worker once, whatever the number of its views", async () => {
  const asked: string[] = [];
  const asset = (name: string): Promise<string> => {
    asked.push(name);
    return Promise.resolve("// the worker");
  };
  const feed = { status: "live", asset } as unknown as Feed;
  const views = Array.from({ length: 100 }, () => new Layouts(feed));
  expect(views.some((view) => view.ready)).toBe(false);
  await Promise.all(views.map((view) => view.prepare()));
  expect(views.every((view) => view.ready)).toBe(true);
  expect(asked).toEqual(["layout"]);
});
