import { stat } from 'node:fs/promises';
import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { Log } from '../runtime/log.ts';
import type { Agent, AgentCatalogue, AgentSet } from './agent.ts';
import { AgentFileError, createCatalogue, listAgentFiles, readAgents } from './load-agents.ts';

/** Files are looked at when somebody asks for agents, and no more often than this. */
const LOOK_INTERVAL_MS = 1_000;

type AgentFolderOptions = Readonly<{
  folder: string;
  /** Takes the place of every agent's model, where given. */
  model?: string | undefined;
  /** Whether an agent can be served. @throws BatonError `config_invalid` whose message begins with the key */
  check: (agent: Agent) => Promise<void>;
  /** Told of every set that is taken. */
  onLoad?: (agents: AgentSet) => void;
  log: Log;
  /** A monotonic clock, in milliseconds. */
  nowMs?: () => number;
}>;

/**
 * The agents of a folder as its files are now. A changed folder is taken as a whole: where anything is wrong with it, the
 * agents stay what they were, and the log names file and key.
 * @throws BatonError `config_invalid` where the folder is wrong at the start
 */
export async function openAgentFolder(options: AgentFolderOptions): Promise<AgentCatalogue> {
  const { folder, log, nowMs = () => performance.now() } = options;
  let seen = await stateOf(folder);
  let agents = await load(options);
  let nextLookMs = nowMs() + LOOK_INTERVAL_MS;
  let looking: Promise<void> | null = null;

  const look = async (): Promise<void> => {
    const state = await stateOf(folder);
    if (state === seen) return;
    // What is written from here on is another state, and seen by the next look.
    seen = state;
    try {
      agents = await load(options);
      log('info', { event: 'agents_changed', agents: agents.names().length });
    } catch (error) {
      log('warn', { event: 'agents_rejected', ...placeOf(error, folder) });
    }
  };
  return {
    async current() {
      if (looking === null && nowMs() >= nextLookMs) {
        looking = look().finally(() => {
          looking = null;
          nextLookMs = nowMs() + LOOK_INTERVAL_MS;
        });
      }
      await looking;
      return agents;
    },
  };
}

async function load({ folder, model, check, onLoad }: AgentFolderOptions): Promise<AgentSet> {
  const read = readAgents(folder, model);
  for (const { file, agent } of read) {
    try {
      await check(agent);
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      const message = `agent ${agent.name}: ${error.message}`;
      throw new AgentFileError(file, keysIn(error.message), message, { cause: error });
    }
  }
  const agents = createCatalogue(read.map(({ agent }) => agent));
  onLoad?.(agents);
  return agents;
}

/** The key that a message about an agent's tools begins with. */
const keysIn = (message: string): string[] => /^[A-Za-z]+(\.[\w-]+)*(?=: )/.exec(message)?.slice(0, 1) ?? [];

/** Different whenever a file was added, removed, written or replaced: links of mounted volumes are followed. */
async function stateOf(folder: string): Promise<string> {
  try {
    const files = listAgentFiles(folder);
    const states = files.map(async (file) => {
      const { ino, size, mtimeMs, ctimeMs } = await stat(path.join(folder, file));
      return [file, ino, size, mtimeMs, ctimeMs];
    });
    return JSON.stringify(await Promise.all(states));
  } catch {
    // Not there, or not any more between two lines: reading it says so.
    return 'unreadable';
  }
}

/** Of an error that is about one file, or else about the folder. */
function placeOf(error: unknown, folder: string): Readonly<{ file: string; keys: readonly string[] }> {
  return error instanceof AgentFileError ? { file: error.file, keys: error.keys } : { file: folder, keys: [] };
}
