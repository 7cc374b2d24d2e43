import { z } from 'zod';
import { DEFAULT_TENANT_ID } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { REQUESTED_DELIVERIES } from '../domain/run/delivery.ts';
import { DEFAULT_HOOK_BODY_BYTES, MAX_BODY_BYTES } from '../domain/tunables.ts';
import { secretProblem } from '../domain/webhooks/webhook.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { readYaml } from '../platform/read-yaml.ts';
import { variable } from './tool-sources.ts';

/** Kinds of signatures: Standard Webhooks, GitHub, Stripe, or HMAC-SHA256 of the body in a header. */
const VERIFY_KINDS = ['standard', 'github', 'stripe', 'hmac'] as const;

const header = z.string().regex(/^[a-z0-9-]{1,64}$/, 'a header in lower case');

const hookSchema = z
  .strictObject({
    agent: z.string().min(1),
    tenant: z.string().min(1).max(64).default(DEFAULT_TENANT_ID),
    verify: z.enum(VERIFY_KINDS),
    /** The variable with the secret that the sender signs with. */
    secretEnv: variable,
    /**
     * For `hmac`: the header with the signature, in hex or Base64, and the header with the id of a repeated request.
     */
    signatureHeader: header.optional(),
    idHeader: header.optional(),
    /** A template. Requests for which it gives the same text are messages of one session. */
    session: z.string().min(1).max(500),
    /** A template. */
    content: z.string().min(1).max(20_000),
    /** The largest request in bytes. */
    maxBytes: z.int().min(1_024).max(MAX_BODY_BYTES).default(DEFAULT_HOOK_BODY_BYTES),
    delivery: z.enum(REQUESTED_DELIVERIES).default('steer'),
  })
  .refine(({ verify, signatureHeader }) => (verify === 'hmac') === (signatureHeader !== undefined), {
    path: ['signatureHeader'],
    error: 'goes with verify: hmac, which needs it',
  })
  .refine(({ verify, idHeader }) => verify === 'hmac' || idHeader === undefined, {
    path: ['idHeader'],
    error: 'goes with verify: hmac only',
  });

const fileSchema = z.strictObject({
  hooks: z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'lower-case letters, digits and -'), hookSchema),
});

/** A hook for another service. Its signed requests become messages to an agent. */
export type IncomingHook = Readonly<z.infer<typeof hookSchema>> & Readonly<{ secret: string }>;
export type IncomingHooks = ReadonlyMap<string, IncomingHook>;

/**
 * Reads the key `hooks` of a YAML or JSON file.
 * @throws BatonError `config_invalid` that names hook and key, also for a secret that is missing or too short
 */
export function loadIncomingHooks(
  file: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): IncomingHooks {
  if (file === undefined) return new Map();
  const parsed = fileSchema.safeParse(readYaml(file, `hooks file ${file}`));
  if (!parsed.success) {
    const problems = describeProblems(fileProblems(fileSchema, parsed.error));
    throw new BatonError('config_invalid', `hooks file ${file}: ${problems}`, { cause: parsed.error });
  }
  return new Map(
    Object.entries(parsed.data.hooks).map(([name, hook]) => {
      const secret = environment[hook.secretEnv] ?? '';
      const key = `hooks file ${file}: ${name}.secretEnv: ${hook.secretEnv}`;
      if (secret === '') throw new BatonError('config_invalid', `${key} is not set`);
      // Other senders choose the form of their secrets.
      const problem = hook.verify === 'standard' ? secretProblem(secret) : secret.length < 16 ? 'too short' : null;
      if (problem !== null) throw new BatonError('config_invalid', `${key} is ${problem}`);
      return [name, { ...hook, secret }];
    }),
  );
}
