import { KernelError } from '@braess/kernel';
import { checkPolicyName, type PolicyKind } from '../policy/policy.js';
import { controllerTemplate, evictionTemplate, oracleTemplate, plannerTemplate } from './background-templates.js';
import { actorTemplate, clientTemplate } from './client-templates.js';
import { admissionTemplate, routerTemplate } from './request-templates.js';

/** A skeleton before its name is filled in: `@name@`, and `@identifier@` in camel case. */
export interface TemplateText {
  readonly source: string;
  readonly test: string;
}

const templates: Readonly<Record<PolicyKind, TemplateText>> = {
  router: routerTemplate,
  admission: admissionTemplate,
  planner: plannerTemplate,
  oracle: oracleTemplate,
  eviction: evictionTemplate,
  controller: controllerTemplate,
  client: clientTemplate,
  actor: actorTemplate,
};

/** A file to write. */
export interface TemplateFile {
  readonly fileName: string;
  readonly text: string;
}

/**
 * A working policy with a test, for `braess policy new`: `<name>.ts`, and `<name>.test.mjs`, which `node --test` runs.
 * @throws KernelError `bad-option` for an unknown kind, `bad-model` for a name that is not lower-case words joined by hyphens.
 */
export function policyTemplate(kind: PolicyKind, name: string): readonly TemplateFile[] {
  const template = templates[kind];
  if (template === undefined)
    throw new KernelError('bad-option', `policy kind '${String(kind)}' is unknown; use one of ${Object.keys(templates).join(', ')}`);
  checkPolicyName(kind, name);
  const identifier = name.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  const fill = (text: string): string => text.trimStart().replaceAll('@name@', name).replaceAll('@identifier@', identifier);
  return [
    { fileName: `${name}.ts`, text: fill(template.source) },
    { fileName: `${name}.test.mjs`, text: fill(template.test) },
  ];
}
