import { type Backgrounds, createBackgrounds } from './background.ts';
import { type BoundedMap, createBoundedMap } from './bounded-map.ts';
import type { Fault } from './fault.ts';
import { createGates, type Gates } from './gates.ts';
import { createJournal, type Journal, type RawBodies } from './journal.ts';
import type { Profile } from './profile-rules.ts';
import { type ProfileName, profileNamed } from './profiles.ts';
import { createPromptCache, type PromptCache } from './prompt-cache.ts';
import { END_OF_SCRIPT, listScript, type Reply, type Script } from './reply.ts';
import type { SimulatedRequest } from './request.ts';
import type { SummaryAnswer } from './summarizer.ts';
import type { ModelWindow, TokenFactor } from './window.ts';
import { createWireMemo, type WireMemo } from './wire.ts';

/** Settings with defaults applied. Delays in milliseconds, windows in tokens, chunk sizes in UTF-16 units. */
export type Settings = Readonly<{
  tokenFactor: TokenFactor;
  contextWindow: number | undefined;
  chunkChars: number;
  chunkDelayMs: number;
  strict: boolean;
  rawBodies: RawBodies;
}>;

type ScriptFunction = (request: SimulatedRequest) => Reply | Promise<Reply>;

export type SimulatorState = Readonly<{
  settings: Settings;
  gates: Gates;
  journal: Journal;
  /** Responses that are made whether or not a client reads them. */
  backgrounds: Backgrounds;
  cache: PromptCache;
  memo: WireMemo;
  /** Texts that were sent after tool calls of the same reply. */
  textsAfterCalls: BoundedMap<string, true>;
  script: (model: string, script: Script) => void;
  /** The script of a model, else that of `*`. */
  scriptOf: (model: string) => ScriptFunction | undefined;
  fault: (model: string, faults: Fault | readonly Fault[]) => void;
  /** Takes the next fault of the model's queue, else of the queue of `*`. */
  takeFault: (model: string) => Fault | undefined;
  setWindow: (model: string, window: number | ModelWindow | undefined) => void;
  windowOf: (model: string) => ModelWindow;
  /** Sets the ways of a model's endpoint, or of all with `*`; undefined: those of the protocol. */
  setProfile: (model: string, name: ProfileName | undefined) => void;
  profileOf: (model: string) => Profile | undefined;
  /** Queues the answers to the next summary requests, and sets the one for later requests. */
  summaries: (answers: readonly SummaryAnswer[], afterwards?: SummaryAnswer) => void;
  takeSummary: () => SummaryAnswer;
  /** Counts the requests of a cache key from 0. */
  nextIndex: (cacheKey: string) => number;
  clear: () => void;
}>;

const ANY_MODEL = '*';
const KEPT_TEXTS = 10_000;

export function createState(settings: Settings): SimulatorState {
  const gates = createGates();
  const journal = createJournal(settings.rawBodies);
  const backgrounds = createBackgrounds();
  const cache = createPromptCache();
  const memo = createWireMemo();
  const textsAfterCalls = createBoundedMap<string, true>(KEPT_TEXTS);
  const scripts = new Map<string, ScriptFunction>();
  const faults = new Map<string, Fault[]>();
  const windows = new Map<string, ModelWindow>();
  const profiles = new Map<string, Profile>();
  const summaries: { queue: SummaryAnswer[]; afterwards: SummaryAnswer } = { queue: [], afterwards: 'ok' };
  const indexes = new Map<string, number>();
  return {
    settings,
    gates,
    journal,
    backgrounds,
    cache,
    memo,
    textsAfterCalls,
    script: (model, script) => {
      scripts.set(model, typeof script === 'function' ? script : listScript(script, { text: END_OF_SCRIPT }));
    },
    scriptOf: (model) => scripts.get(model) ?? scripts.get(ANY_MODEL),
    fault: (model, added) => {
      faults.set(model, [...(faults.get(model) ?? []), ...(Array.isArray(added) ? added : [added])]);
    },
    takeFault: (model) => faults.get(model)?.shift() ?? faults.get(ANY_MODEL)?.shift(),
    setWindow: (model, window) => {
      if (window === undefined) windows.delete(model);
      else windows.set(model, typeof window === 'number' ? { tokens: window } : window);
    },
    windowOf: (model) => windows.get(model) ?? { tokens: settings.contextWindow },
    setProfile: (model, name) => {
      if (name === undefined) profiles.delete(model);
      else profiles.set(model, profileNamed(name));
    },
    profileOf: (model) => profiles.get(model) ?? profiles.get(ANY_MODEL),
    summaries: (answers, afterwards = 'ok') => {
      summaries.queue = [...answers];
      summaries.afterwards = afterwards;
    },
    takeSummary: () => summaries.queue.shift() ?? summaries.afterwards,
    nextIndex: (cacheKey) => {
      const index = indexes.get(cacheKey) ?? 0;
      indexes.set(cacheKey, index + 1);
      return index;
    },
    clear: () => {
      summaries.queue = [];
      summaries.afterwards = 'ok';
      for (const each of [
        scripts,
        faults,
        windows,
        profiles,
        indexes,
        gates,
        journal,
        backgrounds,
        cache,
        memo,
        textsAfterCalls,
      ])
        each.clear();
    },
  };
}
