import { describe, expect, it } from 'vitest';
import type { HeldClaim, StopKind } from '../../src/claims/claim-keeper.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { writeResponse } from '../../src/store/work/step-writes.ts';
import { claimJob } from '../http/play-worker.ts';
import type { TestService } from '../support/service.ts';
import { accept, hearing, startService, statesOf, stillRan, takeStep, tool, withHeld } from './one-step.ts';

const call = (name: string) => ({ name, input: {} });

describe('calls that start as soon as their response is stored', () => {
  it('are marked in the same write, as many as run at once; the others when it is their turn', async () => {
    const seen: unknown[] = [];
    const services: TestService[] = [];
    const sessions: string[] = [];
    const look = async () => {
      const [service] = services;
      const [session = ''] = sessions;
      if (service !== undefined) seen.push(await statesOf(service, session));
    };
    await using service = await startService(tool('one', look), tool('two', look));
    service.simulator.script('test', [{ toolCalls: [call('one'), call('two')] }]);
    const session = await service.createSession({ limits: { toolConcurrency: 1 } });
    services.push(service);
    sessions.push(session);
    let moves = 0;
    await takeStep(service, await accept(service, session), ({ db }) => ({
      db: hearing(db, 'baton_move_calls', () => {
        moves += 1;
      }),
    }));
    expect(seen).toEqual([
      ['running', 'pending'],
      ['completed', 'running'],
    ]);
    // The outcome of the first and the start of the second are one or two; the outcome of the second ends the step.
    expect([1, 2]).toContain(moves);
    expect(await statesOf(service, session)).toEqual(['completed', 'completed']);
  });

  it('are not marked before somebody has said that they need no approval', async () => {
    const seen: unknown[] = [];
    const look: { states: () => Promise<unknown[]> } = { states: async () => [] };
    const needsApproval = async () => {
      seen.push(await look.states());
      return false;
    };
    await using service = await startService(tool('once', async () => undefined, { needsApproval }));
    service.simulator.script('test', [{ toolCalls: [call('once')] }]);
    const session = await service.createSession();
    look.states = () => statesOf(service, session);
    await takeStep(service, await accept(service, session), () => ({}));
    expect([seen, await statesOf(service, session)]).toEqual([[['pending']], ['completed']]);
  });

  it('are not marked while it is in doubt whether the claim is still held', async () => {
    const seen: unknown[] = [];
    let isSure = false;
    await using service = await startService(tool('once', async () => undefined));
    service.simulator.script('test', [{ toolCalls: [call('once')] }]);
    const session = await service.createSession();
    await takeStep(service, await accept(service, session), ({ claims }) => ({
      claims: {
        ...claims,
        hold: (...claim) => ({
          ...claims.hold(...claim),
          mayAct: () => isSure,
          async renewed() {
            seen.push(await statesOf(service, session));
            isSure = true;
          },
        }),
      },
    }));
    expect([seen, await statesOf(service, session)]).toEqual([[['pending']], ['completed']]);
  });

  it.each<[StopKind, string]>([
    ['shutdown', 'pending'],
    ['cancelled', 'error'],
    ['lost', 'running'],
  ])('do not start where the step is stopped (%s) before they have', async (stopKind, left) => {
    const begun: string[] = [];
    await using service = await startService(tool('once', async () => void begun.push('once')));
    service.simulator.script('test', [{ toolCalls: [call('once'), call('once')] }]);
    const session = await service.createSession();
    const job = await accept(service, session);
    const hooks: { held?: HeldClaim } = {};
    await takeStep(service, job, (own) => ({
      db: hearing(own.db, 'baton_write_response', () => hooks.held?.stop(stopKind)),
      ...withHeld(own, hooks),
    }));
    expect(begun).toEqual([]);
    expect(await statesOf(service, session)).toEqual([left, left]);
  });

  it('do not start where a cancel is committed before the response, whoever was told of it', async () => {
    const begun: string[] = [];
    await using service = await startService(tool('once', async () => void begun.push('once')));
    service.simulator.script('test', [{ toolCalls: [call('once')] }]);
    const session = await service.createSession();
    const job = await accept(service, session);
    await takeStep(service, job, ({ db }) => ({
      db: hearing(db, 'baton_claim_run', () => requestCancel(service.deps.db, 'default', job.runId)),
    }));
    expect([begun, await statesOf(service, session), await stillRan(service, session)]).toEqual([[], ['error'], []]);
  });

  it('are no tool that still ran after a cancel that came before they began', async () => {
    await using service = await startService(tool('once', async () => undefined));
    service.simulator.script('test', [{ toolCalls: [call('once')] }]);
    const session = await service.createSession();
    const job = await accept(service, session);
    const hooks: { held?: HeldClaim } = {};
    const cancelled: Promise<unknown>[] = [];
    await takeStep(service, job, (own) => ({
      db: hearing(own.db, 'baton_write_response', () => {
        hooks.held?.stop('cancelled');
        cancelled.push(requestCancel(service.deps.db, 'default', job.runId));
      }),
      ...withHeld(own, hooks),
    }));
    await Promise.all(cancelled);
    expect(await stillRan(service, session)).toEqual([]);
  });

  it('are pending where a cancel was there before the response, and stay as they are where that is written again', async () => {
    await using service = await startService();
    const { db } = service.deps;
    const parts = [{ type: 'tool', toolCallId: 'c1', toolName: 'once', input: {}, state: 'running' }] as const;
    const write = async (isCancelled: boolean) => {
      const session = await service.createSession();
      const { fence, messageId } = await claimJob(db, await accept(service, session));
      if (isCancelled) await requestCancel(db, 'default', fence.runId);
      const response = { messageId, parts, finishReason: 'tool-calls' } as const;
      const answers = [await writeResponse(db, fence, response, []), await writeResponse(db, fence, response, [])];
      return [answers.map((answer) => answer?.mayStart), await statesOf(service, session)];
    };
    expect(await write(false)).toEqual([[true, true], ['running']]);
    expect(await write(true)).toEqual([[false, false], ['pending']]);
  });
});
