/**
 * The language's own stacks of disposables. Node has them from version 24 on; for an older one they are written here.
 * The globals stay as they are, because they belong to the program that uses Baton.
 */
export type DisposableStack = globalThis.DisposableStack;
export type AsyncDisposableStack = globalThis.AsyncDisposableStack;

/** Two failures as one: `error` came while `suppressed` was on its way. */
function withSuppressed(error: unknown, suppressed: unknown): Error {
  return Object.assign(new Error('An error was suppressed during disposal.', { cause: error }), {
    name: 'SuppressedError',
    error,
    suppressed,
  });
}

/** The failures of disposals, as one. */
function createFailures() {
  let failure: Readonly<{ error: unknown }> | null = null;
  return {
    add(error: unknown): void {
      failure = { error: failure === null ? error : withSuppressed(error, failure.error) };
    },
    throwAny(): void {
      if (failure !== null) throw failure.error;
    },
  };
}

const disposedError = (): Error => new ReferenceError('The stack is disposed already.');
const notDisposable = (): Error => new TypeError('The value has no method that disposes it.');

export class SyncStackOfNode22 implements DisposableStack {
  readonly [Symbol.toStringTag] = 'DisposableStack';
  #entries: (() => void)[] | null = [];

  get disposed(): boolean {
    return this.#entries === null;
  }

  use<T extends Disposable | null | undefined>(value: T): T {
    const entries = this.#open();
    if (value === null || value === undefined) return value;
    const dispose = value[Symbol.dispose];
    if (typeof dispose !== 'function') throw notDisposable();
    entries.push(() => dispose.call(value));
    return value;
  }

  adopt<T>(value: T, onDispose: (value: T) => void): T {
    this.#open().push(() => onDispose(value));
    return value;
  }

  defer(onDispose: () => void): void {
    this.#open().push(onDispose);
  }

  move(): DisposableStack {
    const moved = new SyncStackOfNode22();
    moved.#entries = this.#open();
    this.#entries = null;
    return moved;
  }

  dispose(): void {
    const entries = this.#entries ?? [];
    this.#entries = null;
    const failures = createFailures();
    for (const dispose of entries.reverse()) {
      try {
        dispose();
      } catch (error) {
        failures.add(error);
      }
    }
    failures.throwAny();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #open(): (() => void)[] {
    if (this.#entries === null) throw disposedError();
    return this.#entries;
  }
}

export class AsyncStackOfNode22 implements AsyncDisposableStack {
  readonly [Symbol.toStringTag] = 'AsyncDisposableStack';
  #entries: (() => unknown)[] | null = [];

  get disposed(): boolean {
    return this.#entries === null;
  }

  use<T extends AsyncDisposable | Disposable | null | undefined>(value: T): T {
    const entries = this.#open();
    if (value === null || value === undefined) return value;
    const { [Symbol.asyncDispose]: ofAsync, [Symbol.dispose]: ofSync }: Partial<AsyncDisposable & Disposable> = value;
    const dispose = ofAsync ?? ofSync;
    if (typeof dispose !== 'function') throw notDisposable();
    entries.push(() => dispose.call(value));
    return value;
  }

  adopt<T>(value: T, onDispose: (value: T) => PromiseLike<void> | void): T {
    this.#open().push(() => onDispose(value));
    return value;
  }

  defer(onDispose: () => PromiseLike<void> | void): void {
    this.#open().push(onDispose);
  }

  move(): AsyncDisposableStack {
    const moved = new AsyncStackOfNode22();
    moved.#entries = this.#open();
    this.#entries = null;
    return moved;
  }

  async disposeAsync(): Promise<void> {
    const entries = this.#entries ?? [];
    this.#entries = null;
    const failures = createFailures();
    for (const dispose of entries.reverse()) {
      try {
        await dispose();
      } catch (error) {
        failures.add(error);
      }
    }
    failures.throwAny();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }

  #open(): (() => unknown)[] {
    if (this.#entries === null) throw disposedError();
    return this.#entries;
  }
}

export const DisposableStack: DisposableStackConstructor = globalThis.DisposableStack ?? SyncStackOfNode22;
export const AsyncDisposableStack: AsyncDisposableStackConstructor =
  globalThis.AsyncDisposableStack ?? AsyncStackOfNode22;
