import type { z } from 'zod';
import type { JsonSchema, ToolContext } from '../tools/tool.ts';
import type { AgentDefinition, CodeTool, TypedDefinition } from './agent-definition.ts';
import type { Baton, BatonOptions } from './contract.ts';

// biome-ignore lint/performance/noBarrelFile: the package has one door, and callers that catch errors need the class.
export { BatonError, type ErrorCode } from '../domain/errors.ts';
export type { Authenticate, ConsoleAccess } from '../http/http-env.ts';
export type { GivenLogger } from '../platform/log.ts';
export type { CallerClient } from '../store/db/caller-transaction.ts';
export { defineTool } from '../tools/define-tool.ts';
export type { JsonSchema, ServerTool, ToolContext } from '../tools/tool.ts';
export type { AgentDefinition, CodeTool } from './agent-definition.ts';
export type {
  Baton,
  BatonOptions,
  DeclaredSchedule,
  DeclaredWebhook,
  SendInOptions,
  SentInTransaction,
  WorkerOptions,
} from './contract.ts';
export type { BatonKeys, NewKeyOptions, ProgramKey } from './keys.ts';
export { type SimulatedReply, type SimulatedRequest, type SimulatedScript, simulated } from './simulated.ts';

/** An agent in code. It is checked when Baton is created. Each tool gets the input of its own schema. */
export function defineAgent<
  const Name extends string,
  Schemas extends Readonly<Record<string, z.ZodType | JsonSchema>> = Readonly<Record<string, z.ZodType | JsonSchema>>,
>(definition: TypedDefinition<Name, Schemas>): AgentDefinition & Readonly<{ name: Name }> {
  return definition;
}

/** A tool of an agent in code: its input is that of the schema. */
export function tool<Schema extends z.ZodType>(
  definition: Omit<CodeTool, 'inputSchema' | 'execute' | 'needsApproval'> &
    Readonly<{
      inputSchema: Schema;
      execute: (input: z.output<Schema>, context: ToolContext) => unknown;
      needsApproval?: boolean | ((input: z.output<Schema>) => boolean | Promise<boolean>);
    }>,
): CodeTool {
  return definition;
}

/**
 * The context of a call, for a test of a tool: `refund.execute({ order: 'order-7' }, testContext())`.
 * @param overrides what the test looks at
 */
export const testContext = (overrides: Partial<ToolContext> = {}): ToolContext => ({
  signal: new AbortController().signal,
  callKey: 'call_00000000000000000000000000000001',
  toolCallId: 'call_1',
  tenantId: 'default',
  sessionId: 'ses_00000000000000000000000000000001',
  runId: 'run_00000000000000000000000000000001',
  ...overrides,
});

/**
 * Opens Baton in this process. It reads no variables of the environment, installs no signal handlers and never ends the
 * process.
 * @throws BatonError `config_invalid`; `store_unavailable` for a Postgres or Redis that cannot be reached
 */
export async function createBaton<const Agents extends readonly AgentDefinition[]>(
  options: BatonOptions<Agents>,
): Promise<Baton<Agents[number]['name']>> {
  const { openBaton } = await import('./open-baton.ts');
  return openBaton(options);
}
