/** Where things lie as groups open and close: what is there stays about where it is seen. */

import type { Contents } from "../graph/contents";
import { columnsOf, sideBySide } from "./columns";
import { contentsIn, inset, kept } from "./insets";
import type { Layouts } from "./layouts";
import type { Layout, Placed } from "./types";

/** layouts from before groups were opened that are remembered */
const REMEMBERED = 32;

interface Arranged {
  readonly contents: Contents;
  readonly layout: Layout;
}

export class Arrangement {
  private now: Arranged | null = null;
  /** how things lay before each group was opened: it is so again when that is closed */
  private before: Arranged[] = [];
  private asked = 0;

  constructor(private readonly layouts: Layouts) {}

  /** All laid out anew; null if something else was asked for meanwhile. */
  async anew(contents: Contents): Promise<Layout | null> {
    const asked = ++this.asked;
    const layout = await this.lay(contents);
    return asked === this.asked ? this.keep(contents, layout, []) : null;
  }

  /**
   * What is open has changed.
   * @param seen the part of the picture that is seen, by its top left
   */
  async next(contents: Contents, seen: Placed): Promise<Layout | null> {
    const { now } = this;
    if (!now || now.contents.root !== contents.root) return this.anew(contents);
    const asked = ++this.asked;
    const known = this.before.findIndex((b) => sameOpen(b.contents, contents));
    if (known >= 0) return this.keep(contents, this.before[known]!.layout, this.before.slice(0, known));
    const open = new Set(contents.clusters);
    const opened = now.contents.boxes.filter((b) => b.group && open.has(b.group));
    let layout = kept(now.layout, contents, opened);
    for (const { group } of opened) {
      const part = contentsIn(contents, group!, layout);
      const inner = await this.lay(part);
      if (asked !== this.asked) return null;
      layout = inset(layout, group!, inner, contents, seen);
    }
    if (contents.boxes.some((b) => !layout.boxes.has(b.id))) return this.anew(contents);
    const before = opened.length ? [...this.before.slice(1 - REMEMBERED), now] : this.before;
    return this.keep(contents, layout, before);
  }

  private keep(contents: Contents, layout: Layout, before: Arranged[]): Layout {
    this.now = { contents, layout };
    this.before = before;
    return layout;
  }

  private async lay(contents: Contents): Promise<Layout> {
    const columns = columnsOf(contents);
    if (!columns.length) return this.layOne(contents);
    const layouts: Layout[] = [];
    for (const column of columns) layouts.push(await this.layOne(column));
    return sideBySide(columns, layouts, contents);
  }

  private async layOne(contents: Contents): Promise<Layout> {
    const layout = this.layouts.ready ? await this.layouts.lay(contents) : null;
    return layout ?? this.layouts.simple(contents);
  }
}

function sameOpen(a: Contents, b: Contents): boolean {
  return a.clusters.length === b.clusters.length && a.clusters.every((g, i) => g === b.clusters[i])
    && a.boxes.length === b.boxes.length;
} // prettier-ignore
