import { vi } from 'vitest';
import { runCommandLine } from '../../../src/cli/command-line.ts';

/**
 * Runs a command in this process, which takes no time to start, and collects its errors: for command lines that are
 * refused. Only one at a time.
 */
export async function runHere(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Readonly<{ code: number; output: string }>> {
  let output = '';
  using _stderr = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  const code = await runCommandLine(args, environment);
  return { code, output };
}
