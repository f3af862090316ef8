//! Asking a person.

use inquire::{
    Confirm, InquireError, MultiSelect, Select, Text, ui::RenderConfig, validator::Validation,
};

/// Why the questions ended early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The person does not want to go on.
    Canceled(String),
    /// It is not possible to go on.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stopped {
    fn from(error: anyhow::Error) -> Self {
        Stopped::Failed(error)
    }
}

/// A check of what was typed.
pub(crate) type Check = fn(&str) -> anyhow::Result<()>;

/// Somebody who answers questions.
pub(crate) trait Prompts {
    /// Tells something.
    fn say(&self, text: &str);
    /// Yes or no.
    fn confirm(&self, question: &str, default: bool) -> Result<bool, Stopped>;
    /// One of several.
    fn select(&self, question: &str, options: Vec<String>) -> Result<usize, Stopped>;
    /// Any of several.
    fn multi_select(
        &self,
        question: &str,
        options: Vec<String>,
        chosen: &[usize],
    ) -> Result<Vec<usize>, Stopped>;
    /// A line of text.
    fn text(&self, question: &str, default: &str, check: Check) -> Result<String, Stopped>;
}

/// A person at a terminal. Everything is shown on standard error.
pub(crate) struct Terminal {
    style: RenderConfig<'static>,
}

impl Terminal {
    /// In colour, unless `NO_COLOR` is set.
    pub(crate) fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            style: if plain {
                RenderConfig::empty()
            } else {
                RenderConfig::default_colored()
            },
        }
    }
}

fn stopped(error: InquireError) -> Stopped {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Stopped::Canceled("you stopped".to_owned())
        }
        error => Stopped::Failed(anyhow::Error::new(error).context("cannot ask on this terminal")),
    }
}

impl Prompts for Terminal {
    fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    fn confirm(&self, question: &str, default: bool) -> Result<bool, Stopped> {
        Confirm::new(question)
            .with_default(default)
            .with_render_config(self.style)
            .prompt()
            .map_err(stopped)
    }

    fn select(&self, question: &str, options: Vec<String>) -> Result<usize, Stopped> {
        let answer = Select::new(question, options)
            .with_render_config(self.style)
            .raw_prompt();
        Ok(answer.map_err(stopped)?.index)
    }

    fn multi_select(
        &self,
        question: &str,
        options: Vec<String>,
        chosen: &[usize],
    ) -> Result<Vec<usize>, Stopped> {
        let answer = MultiSelect::new(question, options)
            .with_default(chosen)
            .with_render_config(self.style)
            .raw_prompt();
        let answer = answer.map_err(stopped)?;
        Ok(answer.into_iter().map(|option| option.index).collect())
    }

    fn text(&self, question: &str, default: &str, check: Check) -> Result<String, Stopped> {
        let judge = move |text: &str| {
            Ok(match check(text.trim()) {
                Ok(()) => Validation::Valid,
                Err(error) => Validation::Invalid(error.to_string().into()),
            })
        };
        let mut prompt = Text::new(question)
            .with_validator(judge)
            .with_render_config(self.style);
        if !default.is_empty() {
            prompt = prompt.with_default(default);
        }
        let answer = prompt.prompt().map_err(stopped)?;
        Ok(answer.trim().to_owned())
    }
}
