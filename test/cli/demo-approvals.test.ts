import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { createApprover } from '../../src/cli/demo/approvals.ts';

const CALL = { toolName: 'bash', args: { command: `echo ${'x'.repeat(500)}\nrm -r build\u001b[2J` } };

/** A person at a terminal. */
function person(isTTY = true) {
  const input = Object.assign(new PassThrough(), { isTTY });
  const output = new PassThrough().setEncoding('utf8');
  const approve = createApprover({ isSimulated: false, yes: false, input, output });
  return { input, output, approve };
}

it.each([
  ['y', { decision: 'approve' }, 'approved by you'],
  ['YES', { decision: 'approve' }, 'approved by you'],
  ['', { decision: 'deny', reason: 'The user does not want this command to be run.' }, 'denied by you'],
  ['no', { decision: 'deny', reason: 'The user does not want this command to be run.' }, 'denied by you'],
  ['yesterday', { decision: 'deny', reason: 'The user does not want this command to be run.' }, 'denied by you'],
])('asks the person, who says %j', async (said, answer, says) => {
  const { input, output, approve } = person();
  input.write(`${said}\n`);
  expect(await approve(CALL, new AbortController().signal)).toEqual({ answer, says });
  expect(output.read()).toBe(`\n    echo ${'x'.repeat(500)}\n    rm -r build\n\n  Run this with bash? [y/N] `);
});

it('stops asking when the person leaves', async () => {
  const leaving = new AbortController();
  const asked = person().approve(CALL, leaving.signal);
  leaving.abort();
  await expect(asked).rejects.toMatchObject({ name: 'AbortError' });
});

it('denies where there is no terminal, and approves what was chosen by a script or wanted beforehand', async () => {
  const { signal } = new AbortController();
  expect(await person(false).approve(CALL, signal)).toMatchObject({ answer: { decision: 'deny' } });
  const { input, output } = person();
  for (const given of [
    { isSimulated: true, yes: false },
    { isSimulated: false, yes: true },
  ]) {
    const decided = await createApprover({ ...given, input, output })(CALL, signal);
    expect(decided).toMatchObject({ answer: { decision: 'approve' } });
  }
});
