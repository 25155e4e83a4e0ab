/** Present activity, for a picture of a graph: nodes at which threads are, and costs of nodes. */

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
  /** The part of a native kernel that has run, from 0 to 1; 0 if unknown. */
  readonly progress: number;
}

export class Activity {
  constructor(
    private readonly feed: Feed,
    readonly executable: number,
  ) {}

  /** Nodes at which threads are in steps of 20 ms or more, and nodes that wait. */
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

  /** The row with a node's seconds in a step, from observed steps. */
  cost(node: number): Row | undefined {
    return this.feed.row("nodes", this.executable, node);
  }

  /** Sums of transfers between devices so far. */
  transfers(): Row[] {
    return [...this.feed.table("transfers")].filter((r) => number(r, "executable") === this.executable);
  }

  /** The cost rows of all nodes that have one. */
  costs(): Row[] {
    return [...this.feed.table("nodes")].filter((r) => number(r, "executable") === this.executable);
  }

  value(node: number): Row | undefined {
    return this.feed.row("values", this.executable, node);
  }

  /** The text of a column that holds numbers of texts. */
  textOf(row: Row, column: string): string {
    return this.feed.name(row, column);
  }

  queue(name: string): Row | undefined {
    for (const row of this.feed.table("queues")) {
      if (this.feed.name(row, "queue") === name) return row;
    }
    return undefined;
  }

  /** A predicate: whether a diagnosis of the kernel names a node, or its device. */
  faults(): (node: number, device: string) => boolean {
    const rows = this.feed.list("diagnoses").filter((r) => number(r, "executable") === this.executable);
    const nodes = new Set(rows.map((row) => number(row, "node")));
    nodes.delete(-1);
    const devices = new Set(rows.filter((r) => number(r, "node") < 0).map((r) => this.feed.name(r, "device")));
    devices.delete("");
    return (node, device) => nodes.has(node) || devices.has(device);
  }

  /** The diagnosis of the function as a whole, such as constant retraces. */
  faultOfAll(): string {
    const rows = this.feed.list("diagnoses").filter((r) => r["kind"] === "retraces");
    const mine = this.feed.row("executables", this.executable);
    const name = mine && this.feed.name(mine, "name");
    return (rows.find((row) => row["path"] === name)?.["text"] as string | undefined) ?? "";
  }

  /** Whether a diagnosis of the kernel names a queue. */
  isFaulty(queue: string): boolean {
    return this.feed.list("diagnoses").some((row) => this.feed.name(row, "queue") === queue);
  }

  look(node: number): void {
    this.feed.look(this.executable, node);
  }

  /** The age of a figure, as a text. */
  age(at: number): string {
    return `${seconds(Math.max(this.feed.now() - at, 0))} ago`;
  }
}
