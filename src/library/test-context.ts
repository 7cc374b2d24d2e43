import type { ToolContext } from '../tools/tool.ts';

/**
 * The context of a call, for a test of a tool: `refund.execute({ order: 'order-7' }, testContext())`.
 * @param given replaces what the test looks at
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
