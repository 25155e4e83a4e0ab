/** Lays graphs out: by Graphviz in a worker, which a page gets once, else by a layout of our own. */

import type { Feed } from "../feed/feed";
import type { Contents } from "../graph/contents";
import { readLayout, writeDot } from "./dot";
import { layered } from "./layered";
import type { Layout } from "./types";

/** milliseconds that a layout may take; it cannot be ended but with its worker */
const LONGEST = 5000;
/** milliseconds to wait for the worker where nothing is shown meanwhile */
const PATIENCE = 1500;
const SHARED = Symbol.for("eagerflow.layout");

/** What a page has once, whatever the number of its views and kernels. */
interface Shared {
  /** the text of the worker; empty until it has come */
  text: string;
  coming: Promise<string> | null;
}

export class Layouts {
  private worker: Worker | null = null;
  private next = 0;

  /** @param feed gives the worker; without it the layout of our own is used */
  constructor(private readonly feed: Feed | null) {}

  /** Whether Graphviz can be used at once. */
  get ready(): boolean {
    return shared().text !== "";
  }

  /** Resolves when Graphviz can be used, or when nobody is left to ask for it. */
  async prepare(): Promise<void> {
    const page = shared();
    while (!page.text && this.feed && this.feed.status !== "lost") {
      const coming = (page.coming ??= this.feed.asset("layout"));
      try {
        page.text = await coming;
      } catch {
        // another kernel of this page was asked, and is gone: this one is there
        if (page.coming === coming) page.coming = null;
      }
    }
  }

  /** Resolves at once where Graphviz is there, else when it has come or nobody may wait any longer. */
  prepared(): Promise<void> {
    if (this.ready || !this.feed) return Promise.resolve();
    return Promise.race([this.prepare(), new Promise<void>((resolve) => setTimeout(resolve, PATIENCE))]);
  }

  /** The layout of our own, at once. */
  simple(contents: Contents): Layout {
    return layered(contents);
  }

  /** What Graphviz makes of it; null if it fails, takes too long, or is asked anew. */
  lay(contents: Contents): Promise<Layout | null> {
    if (!this.ready || !contents.boxes.length) return Promise.resolve(null);
    this.worker ??= start(shared().text);
    const worker = this.worker;
    const id = ++this.next;
    return new Promise((resolve) => {
      const end = (layout: Layout | null): void => {
        clearTimeout(timer);
        worker.removeEventListener("message", heard);
        resolve(layout);
      };
      const timer = setTimeout(() => {
        this.close();
        end(null);
      }, LONGEST);
      const heard = (event: MessageEvent<{ id: number; text?: string }>): void => {
        if (event.data.id !== id) return;
        const { text } = event.data;
        end(text === undefined || id !== this.next ? null : readLayout(text, contents));
      };
      worker.addEventListener("message", heard);
      worker.postMessage({ id, dot: writeDot(contents) });
    });
  }

  close(): void {
    this.worker?.terminate();
    this.worker = null;
  }
}

function shared(): Shared {
  const page = globalThis as unknown as Record<symbol, Shared | undefined>;
  return (page[SHARED] ??= { text: "", coming: null });
}

function start(text: string): Worker {
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  URL.revokeObjectURL(url);
  return worker;
}
