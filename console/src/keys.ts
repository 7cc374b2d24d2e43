import { useEffect, useRef } from 'react';

/** A binding of keys: one key (`j`, `?`, `Mod+k`), or two in a row (`g s`). */
export type Binding = Readonly<{ keys: string; words: string; group: string; run: () => void }>;

const SEQUENCE_MS = 1_000;

const bindings: Binding[] = [];
let pending: Readonly<{ key: string; atMs: number }> | null = null;

/** All bindings of the pages that are shown, oldest first. */
export const currentBindings = (): readonly Binding[] => bindings;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));

/** Whether a window or a menu stands above the page, whichever of its elements has the focus. */
const isCovered = (): boolean =>
  document.querySelector('[role="dialog"], [role="alertdialog"], [role="menu"]') !== null;

/** Whether Enter already has a meaning for the focused element. */
const takesEnter = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest('button, a, summary') !== null;

function nameOf(event: KeyboardEvent): string {
  const isMod = event.ctrlKey || event.metaKey;
  return isMod ? `Mod+${event.key.toLowerCase()}` : event.key;
}

/**
 * Runs the newest binding of a key, unless a field has the focus or a window stands above the page. Call it once for the
 * page.
 */
export function listenForKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.altKey || event.isComposing) return;
    const name = nameOf(event);
    const isMod = name.startsWith('Mod+');
    if (isCovered() || (!isMod && isTyping(event.target))) return;
    if (name === 'Enter' && takesEnter(event.target)) return;
    const before = pending !== null && event.timeStamp - pending.atMs < SEQUENCE_MS ? `${pending.key} ${name}` : null;
    const find = (keys: string): Binding | undefined => bindings.findLast((binding) => binding.keys === keys);
    const found = (before === null ? undefined : find(before)) ?? find(name);
    pending = null;
    if (found !== undefined) {
      event.preventDefault();
      found.run();
    } else if (bindings.some(({ keys }) => keys.startsWith(`${name} `))) {
      pending = { key: name, atMs: event.timeStamp };
    }
  });
}

type Named = Readonly<Record<string, readonly [words: string, run: () => void]>>;

/** Binds keys while the component is shown. */
export function useKeys(group: string, named: Named): void {
  const current = useRef(named);
  current.current = named;
  const names = Object.keys(named).join('\n');
  useEffect(() => {
    const mine = (names === '' ? [] : names.split('\n')).map((keys): Binding => {
      const words = current.current[keys]?.[0] ?? '';
      return { keys, group, words, run: () => current.current[keys]?.[1]() };
    });
    bindings.push(...mine);
    return () => {
      for (const binding of mine) bindings.splice(bindings.indexOf(binding), 1);
    };
  }, [group, names]);
}
