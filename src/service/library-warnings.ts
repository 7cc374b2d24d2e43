import console from 'node:console';
import { DisposableStack } from '../platform/disposable-stacks.ts';
import type { Log } from '../platform/log.ts';

type Warning = Readonly<{ library: string; message: string }>;

/** The output of libraries, kept until there is a log. */
export type LibraryWarnings = Disposable &
  Readonly<{
    /** Logs all kept warnings, and every later one as it comes. */
    tell: (log: Log) => void;
  }>;

/** Most different texts that are remembered, so that each is logged only once. */
const MAX_TEXTS = 1_000;
const MAX_CHARS = 1_000;

/**
 * Catches libraries' console output and Node's warnings, so that stdout and stderr have only the log's own lines. Each
 * text is logged once; the output of users' tools is not caught.
 */
export function captureLibraryWarnings(): LibraryWarnings {
  const reported = new Set<string>();
  const waiting: Warning[] = [];
  let log: Log | null = null;
  const take = (warning: Warning): void => {
    const text = `${warning.library}: ${warning.message}`;
    if (reported.has(text) || reported.size >= MAX_TEXTS) return;
    reported.add(text);
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
  // Node's own listener prints warnings, so it is removed.
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

/** The package whose code called the console; null: code outside `node_modules`, or Baton's own. */
function callingLibrary(): string | null {
  const [, , , caller = ''] = (new Error().stack ?? '').split('\n');
  return libraryIn(caller);
}

/** The innermost `node_modules` folder, because some package managers nest them. */
const PACKAGE = /^.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/m;

function libraryIn(trace: string): string | null {
  const library = PACKAGE.exec(trace)?.[1] ?? null;
  return library === 'baton' ? null : library;
}
