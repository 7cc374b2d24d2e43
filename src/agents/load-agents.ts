import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { summarizingAgent } from '../domain/context/limits/policy.ts';
import { BatonError } from '../domain/errors.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { readYaml } from '../platform/read-yaml.ts';
import { type Agent, type AgentCatalogue, type AgentSet, agentFileSchema, toAgent } from './agent.ts';
import { nameProblem, namesOf } from './agent-names.ts';
import { withOverrides } from './overrides.ts';

/** An invalid agent file. `file` and `keys` hold none of its content and may be logged; the message may hold some. */
export class AgentFileError extends BatonError {
  /** Its name in the folder. */
  readonly file: string;
  /** Dotted paths. Empty: the file as a whole. */
  readonly keys: readonly string[];

  constructor(file: string, keys: readonly string[], message: string, options?: ErrorOptions) {
    super('config_invalid', message, options);
    this.file = file;
    this.keys = keys;
  }
}

/** The errors of several files, one per line. */
class AgentFilesError extends BatonError {
  readonly errors: readonly AgentFileError[];

  constructor(errors: readonly AgentFileError[]) {
    super('config_invalid', errors.map(({ message }) => message).join('\n'));
    this.errors = errors;
  }
}

/** One error per invalid file; none for any other error. */
export function fileErrorsIn(error: unknown): readonly AgentFileError[] {
  if (error instanceof AgentFilesError) return error.errors;
  return error instanceof AgentFileError ? [error] : [];
}

/** Throws all errors as one, so that the error of one file does not hide the next. */
export function throwTogether(errors: readonly AgentFileError[]): void {
  const [first, ...others] = errors;
  if (first !== undefined) throw others.length === 0 ? first : new AgentFilesError(errors);
}

export type AgentFile = Readonly<{ file: string; agent: Agent }>;
type ReadFiles = Readonly<{ read: readonly AgentFile[]; errors: readonly AgentFileError[] }>;

/**
 * Reads every YAML file of a folder as an agent.
 * @param model replaces the model of every agent
 * @throws BatonError `config_invalid` if the folder cannot be read
 */
export function readAgentFiles(folder: string, model?: string): ReadFiles {
  const errors: AgentFileError[] = [];
  const read = listAgentFiles(folder).flatMap((file) => {
    const agent = readAgent(folder, file);
    if (!(agent instanceof AgentFileError)) return [{ file, agent }];
    errors.push(agent);
    return [];
  });
  const changed =
    model === undefined ? read : read.map(({ file, agent }) => ({ file, agent: withOverrides(agent, { model }) }));
  return { read: changed, errors };
}

/** The file's error if another file has the name or an alias of its agent, or if no agent has the summarizer's name. */
export function nameErrors(read: readonly AgentFile[]): AgentFileError[] {
  const taken = new Set<string>();
  const errors: AgentFileError[] = [];
  for (const { file, agent } of read) {
    const problem = nameProblem(agent, taken);
    if (problem === null) for (const name of namesOf(agent)) taken.add(name);
    else errors.push(new AgentFileError(file, [problem.key], `${file}: ${problem.key}: ${problem.message}`));
  }
  const names = new Set(read.map(({ agent }) => agent.name));
  return [...errors, ...read.flatMap(({ file, agent }) => summarizerError(file, agent, names) ?? [])];
}

const SUMMARIZER_KEY = 'context.compaction.model';

function summarizerError(file: string, { context }: Agent, names: ReadonlySet<string>): AgentFileError | null {
  const name = summarizingAgent(context);
  if (name === null || names.has(name)) return null;
  const what = `no agent is named ${name}; known: ${[...names].sort().join(', ')}`;
  return new AgentFileError(file, [SUMMARIZER_KEY], `${file}: ${SUMMARIZER_KEY}: ${what}`);
}

/** A set that never changes. */
export function createCatalogue(agents: readonly Agent[]): AgentSet & AgentCatalogue {
  const byName = new Map(agents.map((agent) => [agent.name, agent]));
  const byAlias = new Map(agents.flatMap((agent) => (agent.aliases ?? []).map((alias) => [alias, agent] as const)));
  const names = [...byName.keys()].sort();
  const set: AgentSet = {
    names: () => names,
    find: (name) => byName.get(name) ?? byAlias.get(name) ?? null,
    get(name) {
      const agent = byName.get(name);
      if (agent !== undefined) return agent;
      throw new BatonError('agent_not_found', `there is no agent ${JSON.stringify(name)}; known: ${names.join(', ')}`);
    },
  };
  return { ...set, current: async () => set };
}

/** Sorted. @throws BatonError `config_invalid` if the folder cannot be read */
export function listAgentFiles(folder: string): string[] {
  try {
    return (
      readdirSync(folder)
        // Editors keep hidden files beside a file while it is edited.
        .filter((name) => /^[^.].*\.ya?ml$/.test(name))
        .sort()
    );
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const example = EXAMPLE === undefined ? '' : ` such as ${EXAMPLE},`;
    const message = `the agents' folder ${folder} cannot be read (${why}): make it, with a YAML file for each agent,${example} or name another one with BATON_AGENTS_DIR`;
    throw new BatonError('config_invalid', message, { cause: error });
  }
}

/** Part of the package: beside its sources, or beside the built files. */
const EXAMPLE = ['../..', '../../..']
  .map((root) => path.join(import.meta.dirname, root, 'agents/workspace.yaml'))
  .find((file) => existsSync(file));

function readAgent(folder: string, file: string): Agent | AgentFileError {
  const where = path.join(folder, file);
  const content = readContent(where, file);
  if (content instanceof AgentFileError) return content;
  const parsed = agentFileSchema.safeParse(content);
  if (parsed.success) return toAgent(parsed.data);
  const problems = fileProblems(agentFileSchema, parsed.error);
  const keys = problems.flatMap((problem) => problem.keys).filter((key) => LOGGED_KEY.test(key));
  return new AgentFileError(file, keys, `${where}: ${describeProblems(problems)}`, { cause: parsed.error });
}

/** The parsed YAML, or an AgentFileError. */
function readContent(where: string, file: string): unknown {
  try {
    return readYaml(where, where);
  } catch (error) {
    if (!(error instanceof BatonError)) throw error;
    return new AgentFileError(file, [], error.message, { cause: error.cause });
  }
}

/** Keys that may be logged: with wrong indentation a line of the instructions may count as a key. */
const LOGGED_KEY = /^[\w.-]{1,200}$/;
