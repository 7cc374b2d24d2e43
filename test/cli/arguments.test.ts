import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { EXIT } from '../../src/cli/exit-codes.ts';

const files = await readdir(path.join(import.meta.dirname, '../../src/cli/commands'));

/** Unreachable services: a command that starts despite its wrong arguments ends with another exit code. */
const NOWHERE = {
  BATON_URL: 'http://127.0.0.1:1',
  DATABASE_URL: 'postgres://postgres@127.0.0.1:1/none',
  BATON_PORT: 'none',
};

/** The command's exit code and stderr. */
async function refusalOf(...args: readonly string[]) {
  const said: string[] = [];
  const note = (text: unknown): boolean => said.push(String(text)) > 0;
  vi.spyOn(process.stderr, 'write').mockImplementation(note);
  vi.spyOn(console, 'error').mockImplementation((text) => void note(text));
  const code = await runCommandLine(args, NOWHERE);
  return { code, said: said.join('\n') };
}

afterEach(() => void vi.restoreAllMocks());

describe('arguments of baton', () => {
  it.each(files.map((file) => [file.replace('.ts', '')] as const))(
    '%s refuses an option that it does not know',
    async (command) => {
      const { code, said } = await refusalOf(command, '--nonsense');
      expect(said).toContain('--nonsense');
      expect(code).toBe(EXIT.wrongArguments);
    },
  );

  it.each([
    ['a key without a name', ['keys', 'create'], 'a key needs a name: --name NAME'],
    ['an argument of migrate', ['migrate', 'now'], "'now'"],
    ['an argument of dev', ['dev', 'now'], "'now'"],
    ['an argument of api', ['api', 'now'], "'now'"],
    ['a reason of an approval', ['answer', 'run_1', 'call_1', 'approve', '--reason', 'x'], '--reason'],
    ['a reason of an output', ['answer', 'run_1', 'call_1', '--output', '1', '--reason', 'x'], '--reason'],
    ['an approval that is an error', ['answer', 'run_1', 'call_1', 'approve', '--error'], '--error'],
    ['arguments of a denial', ['answer', 'run_1', 'call_1', 'deny', '--args', '{}'], '--args'],
    ['arguments of an output', ['answer', 'run_1', 'call_1', '--output', '1', '--args', '{}'], '--args'],
    ['arguments that are no JSON', ['answer', 'run_1', 'call_1', 'approve', '--args', '{'], '--args'],
    ['arguments that are a list', ['answer', 'run_1', 'call_1', 'approve', '--args', '[]'], '--args'],
    ['a denial that is an error', ['answer', 'run_1', 'call_1', 'deny', '--error'], '--error'],
    ['a port that is no number', ['simulator', '--port', 'abc'], '--port'],
    ['a port that there is not', ['simulator', '--port', '65536'], '--port'],
    ['a window that is no number', ['simulator', '--window', 'abc'], '--window'],
  ])('refuses %s', async (_, args, named) => {
    const { code, said } = await refusalOf(...args);
    expect(said.split('\n\n')[0]).toContain(named);
    expect(code).toBe(EXIT.wrongArguments);
  });
});
