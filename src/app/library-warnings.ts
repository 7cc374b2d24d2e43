import console from 'node:console';
import type { Log } from '../platform/log.ts';

type Warning = Readonly<{ library: string; message: string }>;

/** What libraries print, kept until somebody takes it. */
export type LibraryWarnings = Disposable &
  Readonly<{
    /** From now on each goes to this log, with those that came before. */
    tell: (log: Log) => void;
  }>;

/** Different texts that are kept of what was said once, so that it is not said again. */
const MAX_TEXTS = 1_000;
const MAX_CHARS = 1_000;

/**
 * Takes what libraries print on the console, and warnings of Node, in place of those who read stdout and stderr: the log
 * has nothing but its own lines. Each text is told once. What tools of our users print is left alone.
 */
export function captureLibraryWarnings(): LibraryWarnings {
  const told = new Set<string>();
  const waiting: Warning[] = [];
  let log: Log | null = null;
  const take = (warning: Warning): void => {
    const text = `${warning.library}: ${warning.message}`;
    if (told.has(text) || told.size >= MAX_TEXTS) return;
    told.add(text);
    if (log === null) waiting.push(warning);
    else log('warn', { event: 'library_warning', ...warning });
  };
  using stack = new DisposableStack();
  for (const method of ['error', 'info', 'log', 'warn'] as const) {
    const print = console[method];
    console[method] = (...args: unknown[]) => {
      const library = callingLibrary();
      if (library === null) print(...args);
      else take({ library, message: args.map(String).join(' ').slice(0, MAX_CHARS) });
    };
    stack.defer(() => {
      console[method] = print;
    });
  }
  // Node prints warnings by a listener of its own, which goes.
  const listeners = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message, stack: trace }) => {
    take({ library: libraryIn(trace ?? '') ?? 'node', message: `${name}: ${message}`.slice(0, MAX_CHARS) });
  });
  stack.defer(() => {
    process.removeAllListeners('warning');
    for (const listener of listeners) process.on('warning', listener);
  });
  const owned = stack.move();
  return {
    tell(to) {
      log = to;
      for (const warning of waiting.splice(0)) to('warn', { event: 'library_warning', ...warning });
    },
    [Symbol.dispose]: () => owned.dispose(),
  };
}

/** The package whose code has called the console; null where it is none of `node_modules`, or our own. */
function callingLibrary(): string | null {
  const [, , , caller = ''] = (new Error().stack ?? '').split('\n');
  return libraryIn(caller);
}

/** The innermost folder of `node_modules`: some package managers nest them. */
const PACKAGE = /^.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/m;

function libraryIn(trace: string): string | null {
  const library = PACKAGE.exec(trace)?.[1] ?? null;
  return library === 'baton' ? null : library;
}
