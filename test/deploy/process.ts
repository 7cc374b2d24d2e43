import { spawn } from 'node:child_process';
import { childEnvironment } from '../support/child-environment.ts';
import { eventually } from '../support/eventually.ts';

type NodeProcess = AsyncDisposable &
  Readonly<{
    /** Resolves with the first log line of this event. Rejects with the output if the process ends without it. */
    logged: (event: string) => Promise<Readonly<Record<string, unknown>>>;
    /** Resolves when its output has this text `count` times. */
    printed: (text: string, count?: number) => Promise<unknown>;
    ended: Promise<Readonly<{ code: number | null; output: string }>>;
    /** Sends SIGTERM and waits for the end. */
    stop: () => Promise<Readonly<{ code: number | null; output: string }>>;
  }>;

/**
 * Runs Node with PATH and the given environment only. Disposing it kills the process.
 * @param options.prefix a program and its arguments that become Node
 */
export function runNode(
  args: readonly string[],
  options: Readonly<{ cwd: string; environment?: Readonly<Record<string, string>>; prefix?: readonly string[] }>,
): NodeProcess {
  const [program = process.execPath, ...before] = [...(options.prefix ?? []), process.execPath];
  const child = spawn(program, [...before, ...args], {
    cwd: options.cwd,
    env: childEnvironment(options.environment ?? {}),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const onOutput = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      for (const look of onOutput) look();
    });
  }
  const { promise: ended, resolve, reject } = Promise.withResolvers<{ code: number | null; output: string }>();
  child.once('error', reject);
  child.once('close', (code) => resolve({ code, output }));

  const logged = async (event: string): Promise<Readonly<Record<string, unknown>>> => {
    const { promise: found, resolve: find } = Promise.withResolvers<Record<string, unknown>>();
    const look = (): void => {
      const line = output.split('\n').find((text) => text.includes(`"event":"${event}"`) && text.endsWith('}'));
      if (line !== undefined) find(JSON.parse(line));
    };
    onOutput.add(look);
    look();
    const result = await Promise.race([found, ended]);
    onOutput.delete(look);
    if (typeof result['output'] !== 'string') return result;
    throw new Error(`it ended before ${event} was logged:\n${result['output']}`);
  };
  return {
    logged,
    printed: (text, count = 1) => eventually(async () => output.split(text).length > count, `it prints ${text}`),
    ended,
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
