/** What all views have: an element, and a word of when to draw. */

export interface View {
  readonly element: HTMLElement;
  /** The kernel has told something. */
  update(seen: boolean): void;
  /** The size, or the theme, has changed, or it can be seen now. */
  resize(): void;
  dispose(): void;
}
