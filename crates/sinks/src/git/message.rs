//! What a commit says.

use std::borrow::Cow;

use jiff::Timestamp;
use kollect_api::sink::snapshot::Git;

use super::error::GitError;

const DEFAULT_SUBJECT: &str =
    "chore({cluster}/{namespace}/{name}): export {itemCount} items @ {checksumShort}";

/// The templates of commit messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Templates {
    subject: String,
    body: String,
    trailers: Vec<String>,
}

/// What placeholders stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) cluster: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) generation: i64,
    pub(super) items: u64,
    /// 64 hexadecimal digits.
    pub(super) checksum: &'a str,
    pub(super) at: Timestamp,
    pub(super) sink: &'a str,
    pub(super) path: &'a str,
}

impl Templates {
    /// The templates that settings ask for; blank ones count as not set.
    pub(super) fn of(git: &Git) -> Result<Self, GitError> {
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().trim().to_owned();
        let subject = text(&git.commit_message);
        let templates = Self {
            subject: if subject.is_empty() {
                DEFAULT_SUBJECT.to_owned()
            } else {
                subject
            },
            body: text(&git.commit_body),
            trailers: git.commit_trailers.clone(),
        };
        if templates.all().any(|text| text.contains('\0')) {
            return Err(GitError::Configuration(
                "commitMessage, commitBody and commitTrailers must not contain zero bytes".into(),
            ));
        }
        Ok(templates)
    }

    /// Whether messages name the digest of all rows, which takes all rows to compute.
    pub(super) fn want_checksum(&self) -> bool {
        self.all()
            .any(|text| text.contains("{checksum}") || text.contains("{checksumShort}"))
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        [self.subject.as_str(), self.body.as_str()]
            .into_iter()
            .chain(self.trailers.iter().map(String::as_str))
    }

    /// Subject, body and trailers as Git wants them: separated by one blank line each, the trailers
    /// in one block because Git reads only the last block as trailers.
    pub(super) fn render(&self, context: &Context<'_>) -> String {
        let subject = context.fill(&self.subject);
        let subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
        let body = context.fill(&self.body);
        let trailers: Vec<String> = self
            .trailers
            .iter()
            .map(|trailer| context.fill(trailer.trim()))
            .filter(|trailer| !trailer.trim().is_empty())
            .map(|trailer| trailer.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let mut message = [subject.as_str(), body.trim(), &trailers.join("\n")]
            .into_iter()
            .filter(|block| !block.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        message.push('\n');
        message
    }
}

impl Context<'_> {
    /// Replaces placeholders in one pass, so that what a value contains is never a placeholder.
    fn fill(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            rest = &rest[open..];
            match rest.find('}').map(|close| rest.split_at(close + 1)) {
                Some((token, after))
                    if let Some(value) = self.value(&token[1..token.len() - 1]) =>
                {
                    filled.push_str(&value);
                    rest = after;
                }
                _ => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match name {
            "cluster" => self.cluster.into(),
            "namespace" => self.namespace.into(),
            "name" => self.name.into(),
            "generation" | "exportGeneration" => self.generation.to_string().into(),
            "itemCount" => self.items.to_string().into(),
            "checksum" => self.checksum.into(),
            "checksumShort" => self.checksum.get(..12).unwrap_or(self.checksum).into(),
            "exportedAt" => self.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
            "sink" => self.sink.into(),
            "path" => self.path.into(),
            _ => return None,
        })
    }
}

/// What commits would say, for `status.preview`: subject, then body and trailers if there are any.
/// The inventory and its rows are made up.
pub(super) fn sample(
    git: &Git,
    cluster: &str,
    sink: &str,
    path: &str,
    at: Timestamp,
) -> Option<(String, Option<String>)> {
    let context = Context {
        cluster: if cluster.is_empty() {
            "default"
        } else {
            cluster
        },
        namespace: "team-a",
        name: "api",
        generation: 1,
        items: 42,
        checksum: "sha256:a1b2c3d4e5f6",
        at,
        sink,
        path,
    };
    let message = Templates::of(git).ok()?.render(&context);
    Some(match message.trim_end().split_once("\n\n") {
        Some((subject, body)) => (subject.to_owned(), Some(body.to_owned())),
        None => (message.trim_end().to_owned(), None),
    })
}

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    name: String,
    email: String,
}

impl Author {
    /// The configured identity, or Kollect's own.
    pub(super) fn of(git: &Git) -> Result<Self, GitError> {
        let author = git.author.clone().unwrap_or_default();
        let part = |value: Option<String>, default: &str, field: &str| {
            let value = value.unwrap_or_default();
            let value = value.trim();
            if value.contains(['<', '>', '\n', '\r', '\0']) || value.starts_with('-') {
                return Err(GitError::Configuration(format!(
                    "git.author.{field} must not start with '-' or contain '<', '>' or line breaks"
                )));
            }
            Ok(if value.is_empty() { default } else { value }.to_owned())
        };
        Ok(Self {
            name: part(author.name, "kollect", "name")?,
            email: part(author.email, "kollect@kollect.dev", "email")?,
        })
    }

    /// The line of a commit object.
    pub(super) fn line(&self, at: Timestamp) -> String {
        format!("{} <{}> {} +0000", self.name, self.email, at.as_second())
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::sink::snapshot::GitAuthor;

    use super::*;

    fn context() -> Context<'static> {
        Context {
            cluster: "lab",
            namespace: "team-a",
            name: "one",
            generation: 4,
            items: 1,
            checksum: "17d8cfd2ac58803450518db524c34ad6c79fb16fb0574e5eee44467dcefeae81",
            at: "2026-08-01T12:00:00.9Z".parse().unwrap(),
            sink: "git-main",
            path: "inventory/team-a/web.yaml",
        }
    }

    #[test]
    fn s31_body_and_trailers() {
        let git = Git {
            commit_message: Some("sub {name}".into()),
            commit_body: Some("body\nline2".into()),
            commit_trailers: vec!["A: 1".into(), "  ".into(), "B: {cluster}".into()],
            author: Some(GitAuthor {
                name: Some("Bot".into()),
                email: Some("bot@x".into()),
            }),
            ..Git::default()
        };
        let message = Templates::of(&git).unwrap().render(&context());
        assert_eq!(message, "sub one\n\nbody\nline2\n\nA: 1\nB: lab\n");
        let author = Author::of(&git).unwrap();
        assert_eq!(author.line(Timestamp::UNIX_EPOCH), "Bot <bot@x> 0 +0000");
    }

    #[test]
    fn s32_every_placeholder() {
        let git = Git {
            commit_message: Some(
                "sync {namespace}/{name} gen={generation}/{exportGeneration} n={itemCount} \
                 at {exportedAt} via {sink} {path} {unknown}"
                    .into(),
            ),
            ..Git::default()
        };
        let message = Templates::of(&git).unwrap().render(&Context {
            name: "web",
            ..context()
        });
        assert_eq!(
            message,
            "sync team-a/web gen=4/4 n=1 at 2026-08-01T12:00:00Z via git-main \
             inventory/team-a/web.yaml {unknown}\n"
        );
    }

    #[test]
    fn the_default_subject_and_odd_templates() {
        let default = Templates::of(&Git::default()).unwrap();
        assert_eq!(
            default.render(&context()),
            "chore(lab/team-a/one): export 1 items @ 17d8cfd2ac58\n"
        );
        assert!(default.want_checksum());
        for (template, expected) in [
            ("two\nlines", "two lines\n"),
            ("{", "{\n"),
            ("{{name}}", "{one}\n"),
            ("{name", "{name\n"),
            ("} {name}", "} one\n"),
        ] {
            let git = Git {
                commit_message: Some(template.into()),
                ..Git::default()
            };
            let templates = Templates::of(&git).unwrap();
            assert_eq!(templates.render(&context()), expected);
            assert!(!templates.want_checksum());
        }
        // A value that looks like a placeholder stays what it is.
        let tricky = Context {
            name: "{cluster}",
            ..context()
        };
        assert_eq!(tricky.fill("{name}"), "{cluster}");
    }

    #[test]
    fn what_git_could_misread_is_refused() {
        for name in ["-x", "a<b", "a\nb", "a>"] {
            let git = Git {
                author: Some(GitAuthor {
                    name: Some(name.into()),
                    email: None,
                }),
                ..Git::default()
            };
            assert!(Author::of(&git).is_err(), "{name:?}");
        }
        let git = Git {
            commit_body: Some("a\0b".into()),
            ..Git::default()
        };
        assert!(Templates::of(&git).is_err());
    }
}
