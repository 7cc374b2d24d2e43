/** A worker's environment holds its keys: child processes get only these variables and those named for them. */
const PASSED_ENVIRONMENT = [
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'LANG',
  'LANGUAGE',
  'LC_ALL',
  'LC_CTYPE',
  'TMPDIR',
  'TZ',
];

/** The environment of a foreign program. @param names of additional variables */
export function reducedEnvironment(environment: NodeJS.ProcessEnv, names: readonly string[] = []): NodeJS.ProcessEnv {
  const passed = [...PASSED_ENVIRONMENT, ...names].map((name) => [name, environment[name]] as const);
  return { ...Object.fromEntries(passed.filter(([, value]) => value !== undefined)), TERM: 'dumb' };
}
