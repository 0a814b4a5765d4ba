/** Asking once, in a dialogue of the page itself. */

import { button, element } from "./dom.ts";

export interface Question {
  title: string;
  text: string[];
  yes: string;
  no: string;
  danger?: boolean;
}

/** Ask; closing the dialogue in any other way means no. */
export function confirmed(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    const answer = (yes: boolean) => (): void => dialog.close(yes ? "yes" : "no");
    const dialog: HTMLDialogElement = element(
      "dialog",
      { "aria-labelledby": "question-title", "data-testid": "dialog" },
      element("h2", { id: "question-title" }, question.title),
      ...question.text.map((line) => element("p", {}, line)),
      element(
        "div",
        { class: "actions" },
        button(question.no, answer(false), { "data-testid": "dialog-no", autofocus: true }),
        button(question.yes, answer(true), {
          "data-testid": "dialog-yes",
          class: question.danger === true ? "danger" : "primary",
        }),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
