import path from 'node:path';

type CalledAs = Readonly<{ environment: NodeJS.ProcessEnv; script: string | undefined; folder: string }>;

/**
 * The words that call the command `baton` where this process was called: `npm run -s baton --` in a clone,
 * `npx baton` in a project that has the package, and `baton` for one that is on the path.
 */
export function batonCommand(calledAs: Partial<CalledAs> = {}): string {
  const { environment = process.env, script = process.argv[1], folder = import.meta.dirname } = calledAs;
  const isOnPath = path.basename(script ?? '') === 'baton' && !INSTALLED.test(script ?? '');
  // npm and its relatives name themselves to what they run.
  if (isOnPath && environment['npm_execpath'] === undefined) return 'baton';
  return INSTALLED.test(folder) ? 'npx baton' : 'npm run -s baton --';
}

const INSTALLED = /[\\/]node_modules[\\/]/;

/** A text that names commands as `baton COMMAND`, with the words that call them here. */
export function asCalled(text: string, command: string = batonCommand()): string {
  return text.replaceAll(/\bbaton (?=[A-Za-z])/g, `${command} `);
}
