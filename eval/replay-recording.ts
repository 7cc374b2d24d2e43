import { randomBytes } from 'node:crypto';
import { type Recording, replayScript, stepsOf } from '../simulator/recording.ts';
import { type Simulator, startSimulator } from '../simulator/server.ts';
import { factorAt } from '../simulator/window.ts';
import { createCatalogue } from '../src/agents/load-agents.ts';
import { startApi } from '../src/app/api-server.ts';
import { openDependencies } from '../src/app/dependencies.ts';
import { startJobWorker } from '../src/app/job-worker.ts';
import { ACTIVE_RUN_STATUSES } from '../src/domain/run/run.ts';
import { loadConfig } from '../src/platform/config.ts';
import { createLog, type Log } from '../src/platform/log.ts';
import { type ApiClient, createApiClient, type StoredEvent, type StoredMessage } from './api-client.ts';
import { compareTranscript, isSummary, withoutStopped } from './compare-transcript.ts';
import { type DeliveryPlan, planDeliveries } from './deliveries.ts';
import { drive } from './drive.ts';
import { type ContextMetrics, contextMetrics } from './metrics/context-metrics.ts';
import { plantNeedles } from './metrics/needles.ts';
import { compareValues, type Mismatch } from './mismatch.ts';
import { createRecordedTools } from './recorded-tools.ts';
import { ReplayError } from './replay-error.ts';
import {
  RECORDED_TOOLS,
  type ReplayedModel,
  replayedAgent,
  replayedModel,
  toldBy,
  usableTokens,
} from './replayed-agent.ts';
import { type ReplayServices, replayEnvironment } from './services.ts';
import { createMeasureLog, measuredCalls, outputsOf } from './trace.ts';
import { withWholeOutputs } from './whole-outputs.ts';

export type ReplayOptions = ReplayServices &
  ReplayedModel &
  Readonly<{
    /** Ends the replay early. It then stops and removes all that it started. */
    signal?: AbortSignal | undefined;
    /** Needed if the database has API keys. */
    apiKey?: string | undefined;
    log?: Log | undefined;
  }>;

/** The counts are of the stored messages, without the step that closes a recording. */
export type ReplayResult = Readonly<{
  sessionId: string;
  steps: number;
  toolCalls: number;
  userMessages: number;
  mismatches: readonly Mismatch[];
  /** From the first message sent to the end of the last run. */
  durationMs: number;
  transcript: readonly StoredMessage[];
  /** The violations that a strict provider would have refused. Each is a mismatch too. */
  violations: readonly string[];
  /** Null: the replay had no window, strategy or provider. */
  context: ContextMetrics | null;
}>;

/**
 * Drives a recorded conversation through the whole service (HTTP, queue, workers, Postgres), with a simulated provider
 * that answers as recorded, and compares the stored messages. With a window, a strategy or a provider it also plants
 * needles and measures the context, while the provider's token count drifts from the service's estimate.
 * @throws ReplayError `no_user_message`, `busy_database`, `stalled`, `refused`; the errors of unreachable services
 */
export async function replayRecording(given: Recording, options: ReplayOptions = {}): Promise<ReplayResult> {
  const { window, strategy, provider, profile } = options;
  const isMeasured = [window, strategy, provider].some((each) => each !== undefined);
  const told = toldBy(given, options);
  const { recording, needles } = isMeasured ? plantNeedles(told) : { recording: told, needles: [] };
  const plan = planDeliveries(recording);
  const tokenFactor = isMeasured ? { ...TOKEN_DRIFT, calls: stepsOf(recording).length } : 1;
  await using stack = new AsyncDisposableStack();
  const environment = await replayEnvironment(options, stack);
  const simulator = stack.use(await startSimulator({ contextWindow: window, rawBodies: 'none', tokenFactor }));
  const usage = isMeasured ? 'counted' : 'recorded';
  // A new model id for each replay, because a service keeps the limits that it learns about a model.
  const modelId = `recorded-${randomBytes(6).toString('hex')}`;
  simulator.setProfile(modelId, profile);
  simulator.script(modelId, replayScript(recording, { gateFor: plan.gateFor, usage, repeatsStopped: isMeasured }));
  const agent = replayedAgent(recording, modelId, options);
  const model = replayedModel(modelId, options);
  const mismatches: Mismatch[] = [];
  const report = (mismatch: Mismatch): void => void mismatches.push(mismatch);
  const { log, measures } = createMeasureLog(options.log ?? createLog({ level: 'error' }));
  const deps = stack.use(
    await openDependencies(loadConfig({ ...environment, BATON_SIMULATOR_URL: simulator.url }), {
      migrate: true,
      agents: createCatalogue([agent]),
      modelOverrides: [model],
      toolSets: { [RECORDED_TOOLS]: createRecordedTools(recording, report) },
      log,
    }),
  );
  const { url } = stack.use(await startApi(deps));
  const client = createApiClient(url, options);
  await refuseBusyDatabase(client);
  const sessionId = await client.createSession(agent.name);
  const startedAtMs = performance.now();
  const startWorker = async (): Promise<void> => void stack.use(await startJobWorker(deps));
  await driveToEnd({ client, sessionId, plan, simulator, startWorker, report, signal: options.signal });
  const durationMs = performance.now() - startedAtMs;
  const events = await client.events(sessionId);
  const transcript = await withWholeOutputs(deps.db, sessionId, await client.transcript(sessionId));
  const violations = simulator.requests.flatMap((request) => request.violations);
  const { asksOnceMore } = plan;
  mismatches.push(
    ...compareTranscript(recording, transcript, { asksOnceMore, comparesUsage: !isMeasured }),
    ...compareValues('requests to the provider', [], violations),
    ...compareEventSeqs(events),
  );
  const context = isMeasured
    ? contextMetrics({
        recording,
        needles,
        calls: simulator.requests,
        events,
        usableTokens: usableTokens(agent, model),
        storedOutputs: outputsOf(transcript),
        listedFiles: [],
        measuredCalls: measuredCalls(measures, simulator.requests),
        factorOf: (call) => factorAt(tokenFactor, call),
        asksOnceMore,
      })
    : null;
  return { sessionId, ...count(recording, transcript, plan), mismatches, durationMs, transcript, violations, context };
}

/** Drift of the provider's tokens from the service's estimate, from the first step to the last. */
const TOKEN_DRIFT = { from: 1, to: 1.4 } as const;

/** A worker takes every run of its database, so this recording would answer the runs of other clients. */
async function refuseBusyDatabase(client: ApiClient): Promise<void> {
  const active = await Promise.all(ACTIVE_RUN_STATUSES.map((status) => client.hasRuns(status)));
  if (!active.includes(true)) return;
  throw new ReplayError('busy_database', 'Other runs are active in this database: replay in one of its own.');
}

type Drive = Omit<Parameters<typeof drive>[0], 'deliveries' | 'gate'> &
  Readonly<{ plan: DeliveryPlan; simulator: Simulator; signal: AbortSignal | undefined }>;

/** A run that ends before the recording is a mismatch; the messages stored until then are still compared. */
async function driveToEnd({ plan, simulator, signal, ...driving }: Drive): Promise<void> {
  try {
    await drive({ ...driving, deliveries: plan.deliveries, gate: simulator.gate });
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof ReplayError) || error.code !== 'run_ended') throw error;
    driving.report({ at: 'run', expected: 'the recorded end', actual: error.message });
  }
}

function compareEventSeqs(events: readonly StoredEvent[]): Mismatch[] {
  const seqs = events.map((event) => event.seq);
  return compareValues(
    'numbers of the events',
    seqs.map((_, index) => index + 1),
    seqs,
  );
}

function count(
  recording: Recording,
  transcript: readonly StoredMessage[],
  plan: DeliveryPlan,
): Pick<ReplayResult, 'steps' | 'toolCalls' | 'userMessages'> {
  const spoken = withoutStopped(
    recording,
    transcript.filter((message) => !isSummary(message)),
  );
  const answers = spoken.filter((message) => message.role === 'assistant');
  const closing = plan.asksOnceMore && spoken.at(-1)?.role === 'assistant' ? 1 : 0;
  return {
    steps: answers.length - closing,
    toolCalls: answers.reduce((sum, { parts }) => sum + parts.filter((part) => part.type === 'tool').length, 0),
    // Each part is one sent message.
    userMessages: spoken.reduce((sum, { role, parts }) => sum + (role === 'user' ? parts.length : 0), 0),
  };
}
