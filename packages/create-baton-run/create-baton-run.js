#!/usr/bin/env node
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const TEMPLATE = fileURLToPath(new URL('template', import.meta.url));
const USAGE = 'npm create baton-run FOLDER: makes the folder with an agent, a tool, a test and a program';

/** Of npm: https://docs.npmjs.com/cli/configuring-npm/package-json#name */
const PACKAGE_NAME = /^[a-z0-9][a-z0-9._-]{0,213}$/;

const [given = '', ...others] = process.argv.slice(2);
if (given === '--help' || given === '-h') process.stdout.write(`${USAGE}\n`);
else if (given === '' || given.startsWith('-') || others.length > 0) refuse(2, `Name one folder. ${USAGE}`);
else create(path.resolve(given));

function create(folder) {
  const name = path.basename(folder);
  if (!PACKAGE_NAME.test(name)) {
    return refuse(1, `${name} cannot be the name of a package: take small letters, digits, "-", "_" and ".".`);
  }
  try {
    if (!isFree(folder)) return refuse(1, `${folder} is not empty: name a new folder.`);
    mkdirSync(folder, { recursive: true });
    cpSync(TEMPLATE, folder, { recursive: true });
    // npm leaves a file of that name out of packages.
    renameSync(path.join(folder, 'gitignore'), path.join(folder, '.gitignore'));
    for (const file of ['package.json', 'README.md']) {
      const text = readFileSync(path.join(folder, file), 'utf8');
      writeFileSync(path.join(folder, file), text.replace('my-agent', name));
    }
  } catch (error) {
    return refuse(1, `${folder} cannot be made: ${error.message}`);
  }
  const place = path.relative(process.cwd(), folder) || '.';
  process.stdout.write(`Made ${place}. Go on with:

  cd ${place}
  npm install
  cp .env.example .env   # and put your key into it
  npm start
`);
}

function isFree(folder) {
  try {
    return readdirSync(folder).length === 0;
  } catch (error) {
    if (error.code === 'ENOENT') return true;
    throw error;
  }
}

function refuse(exitCode, message) {
  process.stderr.write(`create-baton-run: ${message}\n`);
  process.exitCode = exitCode;
}
