import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { AsyncStackOfNode22, SyncStackOfNode22 } from '../../src/platform/disposable-stacks.ts';

// Each case also runs on Node's own stacks, which are the reference for the right behaviour.
describe.each([
  ['of Node', AsyncDisposableStack],
  ['for Node 22', AsyncStackOfNode22],
])('an asynchronous stack %s', (_, Stack) => {
  it('disposes everything once, last first, whatever it was given', async () => {
    const done: string[] = [];
    const stack = new Stack();
    const sync = { name: 'sync', [Symbol.dispose]: () => void done.push('sync') };
    expect(stack.use(sync)).toBe(sync);
    stack.use({ [Symbol.asyncDispose]: async () => void done.push('async') });
    expect(stack.use(null)).toBe(null);
    expect(stack.adopt('a value', async (value) => void done.push(value))).toBe('a value');
    stack.defer(async () => void done.push('deferred'));
    expect(stack.disposed).toBe(false);
    await stack.disposeAsync();
    await stack[Symbol.asyncDispose]();
    expect(done).toEqual(['deferred', 'a value', 'async', 'sync']);
    expect(stack.disposed).toBe(true);
    expect(() => stack.defer(() => undefined)).toThrow(ReferenceError);
  });

  it('gives what it has to another one', async () => {
    const done: string[] = [];
    const stack = new Stack();
    stack.defer(() => void done.push('moved'));
    const moved = stack.move();
    await stack.disposeAsync();
    expect(done).toEqual([]);
    await moved.disposeAsync();
    expect(done).toEqual(['moved']);
    expect(() => stack.move()).toThrow(ReferenceError);
  });

  it('goes on after a failure and rejects with all of them', async () => {
    const done: string[] = [];
    const stack = new Stack();
    stack.defer(() => void done.push('first'));
    stack.defer(() => Promise.reject(new Error('second')));
    stack.defer(() => Promise.reject(new Error('third')));
    const error = await stack.disposeAsync().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      name: 'SuppressedError',
      error: { message: 'second' },
      suppressed: { message: 'third' },
    });
    expect(done).toEqual(['first']);
  });

  it('refuses what cannot be disposed', () => {
    expect(() => new Stack().use({} as Disposable)).toThrow(TypeError);
  });
});

describe.each([
  ['of Node', DisposableStack],
  ['for Node 22', SyncStackOfNode22],
])('a synchronous stack %s', (_, Stack) => {
  it('disposes everything once, last first, unless it was moved', () => {
    const done: string[] = [];
    const stack = new Stack();
    stack.use({ [Symbol.dispose]: () => void done.push('used') });
    stack.use(undefined);
    stack.adopt('adopted', (value) => void done.push(value));
    stack.defer(() => void done.push('deferred'));
    const moved = stack.move();
    stack.dispose();
    expect(done).toEqual([]);
    moved[Symbol.dispose]();
    moved.dispose();
    expect(done).toEqual(['deferred', 'adopted', 'used']);
    expect(moved.disposed).toBe(true);
    expect(() => moved.defer(() => undefined)).toThrow(ReferenceError);
    expect(() => new Stack().use({} as Disposable)).toThrow(TypeError);
  });

  it('throws all failures as one', () => {
    const stack = new Stack();
    const fail = (message: string) => () => {
      throw new Error(message);
    };
    stack.defer(fail('second'));
    stack.defer(fail('first'));
    expect(() => stack.dispose()).toThrow(
      expect.objectContaining({ name: 'SuppressedError', error: new Error('second'), suppressed: new Error('first') }),
    );
  });
});

it('each file of the product that makes a stack imports it, because Node 22 has none', () => {
  const root = path.join(import.meta.dirname, '../..');
  // `build-console.ts` is left out: only a clone runs it, on the Node that npm installs.
  const files = globSync('{src,simulator,workers}/**/*.ts', { cwd: root, exclude: ['src/cli/build-console.ts'] });
  expect(files.length).toBeGreaterThan(100);
  const without = files.filter((file) => {
    const source = readFileSync(path.join(root, file), 'utf8');
    return /new (?:Async)?DisposableStack\(/.test(source) && !/from '.*\/disposable-stacks\.ts'/.test(source);
  });
  expect(without).toEqual([]);
});
