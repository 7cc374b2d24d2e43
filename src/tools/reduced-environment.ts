/**
 * A worker's environment holds its keys: what it starts gets only what is listed here, and what it is given by name.
 */
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

/** The environment of a process that is none of ours. @param names of variables that it gets beside the usual ones */
export function reducedEnvironment(environment: NodeJS.ProcessEnv, names: readonly string[] = []): NodeJS.ProcessEnv {
  const passed = [...PASSED_ENVIRONMENT, ...names].map((name) => [name, environment[name]] as const);
  return { ...Object.fromEntries(passed.filter(([, value]) => value !== undefined)), TERM: 'dumb' };
}
