/** What runs now, for a picture of a graph: where threads are, how long nodes take. */

import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { seconds } from "../format";

export type Doing = "works" | "waits" | "moves data";

export interface NodePlace {
  readonly node: number;
  readonly doing: Doing;
  readonly since: number;
  readonly iteration: number;
  readonly queue: string;
  /** How much of a native kernel has run, from 0 to 1; 0 where that is not known. */
  readonly progress: number;
}

export class Activity {
  constructor(
    private readonly feed: Feed,
    readonly executable: number,
  ) {}

  /** Where threads are in steps of 20 ms or more, and what waits. */
  places(): NodePlace[] {
    const rows = this.feed.list("places").filter((r) => number(r, "executable") === this.executable);
    return rows.map((row) => ({
      node: number(row, "node"),
      doing: this.feed.name(row, "doing") as Doing,
      since: number(row, "since"),
      iteration: number(row, "iteration"),
      queue: this.feed.name(row, "queue"),
      progress: number(row, "progress"),
    }));
  }

  steps(): Row | undefined {
    return this.feed.row("steps", this.executable);
  }

  /** Seconds of one step that a node takes, from steps that were observed. */
  cost(node: number): Row | undefined {
    return this.feed.row("nodes", this.executable, node);
  }

  /** What moved from device to device so far. */
  transfers(): Row[] {
    return [...this.feed.table("transfers")].filter((r) => number(r, "executable") === this.executable);
  }

  /** Those of all nodes that are known. */
  costs(): Row[] {
    return [...this.feed.table("nodes")].filter((r) => number(r, "executable") === this.executable);
  }

  value(node: number): Row | undefined {
    return this.feed.row("values", this.executable, node);
  }

  /** A text of a row, which refers to it by its number. */
  textOf(row: Row, column: string): string {
    return this.feed.name(row, column);
  }

  queue(name: string): Row | undefined {
    for (const row of this.feed.table("queues")) {
      if (this.feed.name(row, "queue") === name) return row;
    }
    return undefined;
  }

  /** Whether the kernel says that something is wrong with a node, or with its device. */
  faults(): (node: number, device: string) => boolean {
    const rows = this.feed.list("diagnoses").filter((r) => number(r, "executable") === this.executable);
    const nodes = new Set(rows.map((row) => number(row, "node")));
    nodes.delete(-1);
    const devices = new Set(rows.filter((r) => number(r, "node") < 0).map((r) => this.feed.name(r, "device")));
    devices.delete("");
    return (node, device) => nodes.has(node) || devices.has(device);
  }

  /** What the kernel says of the function as a whole, such as that it is traced anew all the time. */
  faultOfAll(): string {
    const rows = this.feed.list("diagnoses").filter((r) => r["kind"] === "retraces");
    const mine = this.feed.row("executables", this.executable);
    const name = mine && this.feed.name(mine, "name");
    return (rows.find((row) => row["path"] === name)?.["text"] as string | undefined) ?? "";
  }

  /** Whether the kernel says that something is wrong at a queue. */
  isFaulty(queue: string): boolean {
    return this.feed.list("diagnoses").some((row) => this.feed.name(row, "queue") === queue);
  }

  look(node: number): void {
    this.feed.look(this.executable, node);
  }

  /** How old a figure is, in words. */
  age(at: number): string {
    return `${seconds(Math.max(this.feed.now() - at, 0))} ago`;
  }
}
