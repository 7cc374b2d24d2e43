import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutCredentials } from '../../src/domain/model/credentials.ts';
import { withoutSecrets } from '../../src/domain/model/secret-fields.ts';
import { isSecretName } from '../../src/domain/model/secret-names.ts';

const cleaned = <T>(value: T): T => withoutSecrets(value, withoutCredentials);

const PEM = '-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----';

/** A text, and its secret. */
const TEXTS: readonly (readonly [text: string, secret: string])[] = [
  ['PGPASSWORD=hunter psql -h db', 'hunter'],
  ['export DB_PASSWORD="open sesame now"', 'open sesame'],
  ["MYSQL_PWD='it is \\' me'", 'it is'],
  ['docker run -e REDIS_PASSWORD=swordfish redis', 'swordfish'],
  ['tool --db-password=swordfish --fast', 'swordfish'],
  ['tool --token 9f8e7d6c5b', '9f8e7d6c5b'],
  ['authtoken: abc123def', 'abc123def'],
  ['spring.datasource.password=swordfish', 'swordfish'],
  ['const apiKey = "plain words"', 'plain words'],
  ["{'apiKey' => 'plain words'}", 'plain words'],
  ['the config is {"user":"bob","password":"plain words"} there', 'plain words'],
  ['{"body":"{\\"password\\":\\"plain words\\"}"', 'plain words'],
  ['batontoken_ab12cd34ef.eyJzIjoxfQ', 'batontoken_ab12'],
  ['the key baton_Wt2vAbcdefgh1 is gone', 'Wt2vAbcdefgh1'],
  ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'MfKQ9r8'],
  ['//registry.npmjs.org/:_authToken=npm_abcdefghijklmnopqrstuvwxyz0123456789', 'npm_abcdef'],
  ['npm_abcdefghijklmnopqrstuvwxyz0123456789', 'abcdefghij'],
  ['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', 'ngeVfQFY'],
  ['sk-proj-abc123def456', 'abc123'],
  ['sk_live_abc123def456', 'abc123'],
  ['ghp_16C7e42F292c6912E7710c838347Ae178B4a', '16C7e42F'],
  ['github_pat_11ABCDEFG0abcdefghij', '11ABCDEFG'],
  ['xoxb-123456789012-abcdef', '123456789012'],
  ['glpat-abcdef123456', 'abcdef123456'],
  ['AKIAIOSFODNN7EXAMPLE', 'IOSFODNN'],
  ['hvs.CAESIJ1abcdefghijklmnop', 'CAESIJ1'],
  ['GOCSPX-abcdefghijklmnopqrstuvwx', 'abcdefghij'],
  [`the key:\n${PEM}\nand more`, 'MIIEow'],
  [PEM.replaceAll('\n', '\\n'), 'MIIEow'],
  [PEM.slice(0, 45), 'MIIEow'],
  ['-----BEGIN PRIVATE KEY-----\nMIIEow\n-----END PRIVATE KEY-----', 'MIIEow'],
  ['-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----', 'b3Blbn'],
  ['Cookie: session=plainwords; theme=dark', 'plainwords'],
  ["curl -H 'Cookie: sid=plainwords' https://a.example", 'plainwords'],
  ['set-cookie: sid=plainwords; HttpOnly', 'plainwords'],
  ['Authorization: Token plainwords', 'plainwords'],
  ['Authorization: Digest username="bob", response="plainwords"', 'bob'],
  ["curl -H 'Authorization: ApiKey plainwords' https://a.example", 'plainwords'],
  ['proxy-authorization: Basic dXNlcjpwYXNz', 'dXNlcjpwYXNz'],
  ['curl -u bob:plainwords https://a.example', 'plainwords'],
  ['curl --user bob:plainwords https://a.example', 'plainwords'],
  ['postgres://bob:plainwords@db.example/app', 'plainwords'],
  ['redis://:plainwords@db.example', 'plainwords'],
  ['https://a.example/?access_token=plainwords&page=2', 'plainwords'],
  ['https://a.example/#access_token=plainwords', 'plainwords'],
  ['https://a.blob.example/x?sv=2024&sig=plain%20words', 'plain%20words'],
  ['Server=db;User Id=bob;Password=plainwords;', 'plainwords'],
  ['Bearer abcdef0123456789', 'abcdef0123456789'],
];

describe('a text without credentials', () => {
  it.each(TEXTS)('%s', (text, secret) => {
    const rest = withoutCredentials(text);
    expect(rest).toContain('[removed]');
    expect(rest).not.toContain(secret);
    expect(withoutCredentials(rest), 'a second time').toBe(rest);
  });

  it.each([
    'Reset the password of bob, please. The token: next.',
    'The key: messages are kept. A cookie: sweet.',
    `PASSWORD=$DB_PASSWORD TOKEN=\${TOKEN} KEY=<key>`,
    'const token = await readToken(); const password=prompt("Password: ")',
    'max_tokens=4096 tokenCount=12 PWD=/srv/app token_type=bearer',
    '{"maxTokens":"4096","path":"/etc/passwd","keyboard":"de"}',
    'npm_config_cache npm_package_version baton_claim_run SG.words',
    '-----BEGIN CERTIFICATE-----\nMIIEow\n-----END CERTIFICATE-----',
    'docker run -u 1000:1000 image',
    'https://a.example/?page=2&tokens=12#top',
    'git@github.com:owner/name.git',
    '{"password":""}',
  ])('has all else: %s', (text) => {
    expect(withoutCredentials(text)).toBe(text);
  });
});

describe('names', () => {
  it.each([
    ...['password', 'PASSWORD', 'newPassword', 'db_password', 'password2', 'passwordConfirmation', 'passwordHash'],
    ...['PGPASSWORD', 'MYSQL_PWD', 'userPwd', 'passphrase', 'passcode', 'SMTP_PASS', 'pass'],
    ...['apiKey', 'api_key', 'API-KEY', 'apikey', 'X-Api-Key', 'openaiApiKey', 'OPENAI_API_KEY', 'x-goog-api-key'],
    ...['secretAccessKey', 'AWS_SECRET_ACCESS_KEY', 'privateKey', 'private_key', 'signingKey', 'encryptionKey'],
    ...['Ocp-Apim-Subscription-Key', 'accountKey', 'sharedKey', 'sshKey'],
    ...[
      'token',
      'tokens',
      'accessToken',
      'refresh_token',
      'id-token',
      'X-Amz-Security-Token',
      'authtoken',
      'csrfToken',
    ],
    ...['secret', 'clientSecret', 'client_secret', 'SECRETS', 'webhookSecret', 'secretValue'],
    ...['authorization', 'Authorization', 'Proxy-Authorization', 'auth', 'basicAuth'],
    ...['cookie', 'Set-Cookie', 'sessionCookies', 'credentials', 'jwt', 'bearer', 'otp', 'cvv'],
  ])('are secret: %s', (name) => {
    expect(isSecretName(name)).toBe(true);
  });

  it.each([
    ...['path', 'tokenCount', 'tokenType', 'tokenizer', 'maxTokensPerDay', 'nextPageToken', 'next_token', 'pageToken'],
    ...['key', 'keys', 'publicKey', 'primaryKey', 'idempotencyKey', 'objectKey', 'keyboard', 'monkey', 'keyPath'],
    ...['secretary', 'secretName', 'passwordless', 'passwordPolicy', 'passwordResetUrl', 'authorizationUrl', 'author'],
    ...['cookieConsent', 'compass', 'bypass', 'oauthScopes', 'pwd', 'OLDPWD', 'session', 'signature', 'laptop', ''],
  ])('are not: %s', (name) => {
    expect(isSecretName(name)).toBe(false);
  });
});

describe('a value without secrets', () => {
  it.each<[string, unknown, unknown]>([
    ['a field', { password: 'Tr0ub4dor&3xyz', user: 'bob' }, { password: '[removed]', user: 'bob' }],
    ['words', { apiKey: 'plain words' }, { apiKey: '[removed]' }],
    [
      'headers',
      { headers: { Authorization: 'x', accept: 'y' } },
      { headers: { Authorization: '[removed]', accept: 'y' } },
    ],
    ['a list of headers', [{ name: 'X-Api-Key', value: 'x' }], [{ name: 'X-Api-Key', value: '[removed]' }]],
    ['a list of variables', [{ key: 'DB_PASSWORD', value: 'x' }], [{ key: 'DB_PASSWORD', value: '[removed]' }]],
    [
      'pairs',
      [
        ['Cookie', 'x'],
        ['Accept', 'y'],
      ],
      [
        ['Cookie', '[removed]'],
        ['Accept', 'y'],
      ],
    ],
    ['several', { tokens: ['a', 'b'] }, { tokens: ['[removed]', '[removed]'] }],
    ['all below', { credentials: { user: { name: 'bob' } } }, { credentials: { user: { name: '[removed]' } } }],
    ['a number', { password: 1234, otp: 99 }, { password: '[removed]', otp: '[removed]' }],
    ['JSON in a text', '{"secrets":{"a":"x"}}', '{"secrets":{"a":"[removed]"}}'],
    [
      'JSON in JSON',
      { body: '{"data":"{\\"tokens\\":[\\"x\\"]}"}' },
      { body: '{"data":"{\\"tokens\\":[\\"[removed]\\"]}"}' },
    ],
    ['a text in a field', { command: 'PGPASSWORD=x psql' }, { command: 'PGPASSWORD=[removed] psql' }],
  ])('%s', (_what, value, expected) => {
    expect(cleaned(value)).toEqual(expected);
    expect(cleaned(cleaned(value)), 'a second time').toEqual(expected);
  });

  it.each<[string, unknown]>([
    ['fields of tools', { path: '/srv/password.txt', tokenCount: 12, maxTokens: 4096, limit: '20' }],
    ['counts', { tokens: 1234567, totalTokens: '5120', token: 7 }],
    ['switches', { hasPassword: true, password: null, token: false, secret: '' }],
    ['a schema', { properties: { password: { type: 'string' }, credentials: { type: 'object', properties: {} } } }],
    ['a field with the name of a secret', { name: 'password', type: 'string', description: 'Of the user.' }],
    ['two words', ['token', 5]],
    ['JSON without secrets, as it is', '{ "id": 12345678901234567890,\n "path": "a" }'],
  ])('has all else: %s', (_what, value) => {
    expect(cleaned(value)).toEqual(value);
  });

  it('is the same a second time, whatever it is made of', () => {
    const word = fc.constantFrom(...TEXTS.map(([text]) => text), 'plain', 'password', 'Cookie', '');
    const name = fc.constantFrom('password', 'tokens', 'body', 'headers', 'name', 'value', 'credentials');
    const value = fc.letrec((tie) => ({
      any: fc.oneof(word, fc.integer(), fc.array(tie('any'), { maxLength: 3 }), fc.dictionary(name, tie('any'))),
    })).any;
    fc.assert(
      fc.property(value, fc.boolean(), (one, isText) => {
        const once = cleaned(isText ? JSON.stringify(one) : one);
        expect(cleaned(once)).toEqual(once);
      }),
    );
  });
});
