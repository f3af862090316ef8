//! Views and functions for readers. What is wrong with one is said and keeps no rows from being
//! written; what others may have built on one of ours is never broken.

use kollect_api::sink::database::PostgresView;
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
};

use super::Plan;
use crate::postgres::{ddl, lock_key, session::Session, sql::literal};

/// How often a view that cannot change in place gets another name.
const NAMES: usize = 9;

/// Marks an object as ours; what follows tells one definition from another.
const MARK: &str = "made by Kollect, definition ";

/// What is looked for under a name, and how its comment is read and written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    View,
    Function,
}

/// What the database has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Made by us, with this comment.
    Ours(String),
    Others,
}

/// How it went with one name.
pub(super) enum Outcome {
    Ready,
    /// It is there, and cannot become what it should be.
    Fixed,
}

/// The comment of an object of ours with this definition.
pub(super) fn mark(definition: &str) -> String {
    format!("{MARK}{:016x}", lock_key(&["view", definition]))
}

impl Kind {
    fn question(self) -> &'static str {
        match self {
            Kind::View => {
                "SELECT relkind = 'v', coalesce(obj_description(oid, 'pg_class'), '') \
                 FROM pg_class WHERE oid = to_regclass($1)"
            }
            Kind::Function => {
                "SELECT TRUE, coalesce(obj_description(oid, 'pg_proc'), '') \
                 FROM pg_proc WHERE oid = to_regprocedure($1 || '(timestamptz)')"
            }
        }
    }

    fn comment_on(self, name: &str) -> String {
        match self {
            Kind::View => format!("VIEW {name}"),
            Kind::Function => format!("FUNCTION {name}(timestamptz)"),
        }
    }
}

impl Plan {
    /// Creates a view or brings it up to date. Gives a warning if it is not as asked.
    pub(super) async fn ensure_view(
        &self,
        session: &Session,
        view: &PostgresView,
    ) -> Option<String> {
        let name = |number: usize| {
            let base = view.name.trim();
            match number {
                1 => self.names.qualified(base),
                _ => self.names.qualified(&format!("{base}_{number}")),
            }
        };
        let names: Vec<String> = (1..=NAMES).map(name).collect();
        let define = |name: &str| ddl::create_view(&self.names, view, name);
        match self
            .ensure_one_of(session, Kind::View, &names, define)
            .await
        {
            Ok(Some(0)) => None,
            Ok(Some(other)) => Some(format!(
                "view {} keeps the columns it has, because others may build on them; what \
                 spec.postgres.views asks for is view {}",
                names[0], names[other]
            )),
            Ok(None) => Some(format!(
                "{} exists and was not made by Kollect, or cannot be changed any more; it is left \
                 alone, choose another name in spec.postgres.views",
                names[0]
            )),
            Err(error) => {
                let reason = self.fault("postgres create view", &error).error;
                // A connection that broke here is found out by the delivery that follows.
                let _ = self.rollback(session).await;
                Some(format!(
                    "view {} is not as spec.postgres.views asks: {reason}",
                    names[0]
                ))
            }
        }
    }

    /// The index, the function and the view of the history.
    pub(super) async fn ensure_history_objects(&self, session: &Session) -> Option<String> {
        let history = self.names.history()?;
        match self.try_history_objects(session).await {
            Ok(warning) => warning,
            Err(error) => {
                let reason = self.fault("postgres create function", &error).error;
                let _ = self.rollback(session).await;
                tracing::info!("{history} has no function or view of its own: {reason}");
                None
            }
        }
    }

    async fn try_history_objects(
        &self,
        session: &Session,
    ) -> Result<Option<String>, tokio_postgres::Error> {
        let names = &self.names;
        let client = &session.client;
        let question = format!(
            "SELECT to_regclass({}) IS NULL",
            literal(&names.qualified(&names.history_index().unwrap_or_default()))
        );
        client.batch_execute(&self.begin).await?;
        let missing: bool = client.query_typed_one(&question, &[]).await?.try_get(0)?;
        client.batch_execute("COMMIT").await?;
        if let Some(text) = ddl::create_history_index(names).filter(|_| missing) {
            self.begin_alone(session).await?;
            client.batch_execute(&format!("{text}; COMMIT")).await?;
        }
        let mut taken = Vec::new();
        for (kind, usual, other) in [
            (Kind::Function, ddl::AS_OF, "as_of"),
            (Kind::View, ddl::CHANGES, "changes"),
        ] {
            let usual = names.qualified(usual);
            let candidates = [usual.clone(), names.of_history(other).unwrap_or_default()];
            let define = |name: &str| {
                let text = match kind {
                    Kind::Function => ddl::create_as_of(names, name),
                    Kind::View => ddl::create_changes(names, name),
                };
                text.unwrap_or_default()
            };
            match self
                .ensure_one_of(session, kind, &candidates, define)
                .await?
            {
                Some(0) => {}
                Some(_) => tracing::info!(
                    "{usual} belongs to another table; {} is made",
                    candidates[1]
                ),
                None => taken.push(usual),
            }
        }
        Ok((!taken.is_empty()).then(|| {
            format!(
                "{} exists and was not made by Kollect; it is left alone",
                taken.join(", ")
            )
        }))
    }

    /// Makes sure that one of these names stands for the definition, the first if possible. Says
    /// which; none if all of them belong to others.
    async fn ensure_one_of(
        &self,
        session: &Session,
        kind: Kind,
        names: &[String],
        define: impl Fn(&str) -> String,
    ) -> Result<Option<usize>, tokio_postgres::Error> {
        self.begin_alone(session).await?;
        let mut found = Vec::new();
        for name in names {
            let one = self.found(session, kind, name).await?;
            let ends = one == Found::Nothing;
            found.push(one);
            if ends {
                break;
            }
        }
        let mark = |name: &str| mark(&define(name));
        for (at, (name, one)) in names.iter().zip(&found).enumerate() {
            if *one == Found::Ours(mark(name)) {
                session.client.batch_execute("COMMIT").await?;
                return Ok(Some(at));
            }
        }
        for (at, (name, one)) in names.iter().zip(&found).enumerate() {
            match one {
                // Somebody chose this name: another one would not be found by whoever asks for it.
                Found::Others if matches!(kind, Kind::View) && names.len() == NAMES => break,
                Found::Others => continue,
                // What serves the table of another sink is not ours to change.
                Found::Ours(_)
                    if names.len() != NAMES && !self.serves_us(session, kind, name).await? =>
                {
                    continue;
                }
                Found::Nothing | Found::Ours(_) => {}
            }
            if let Outcome::Ready = self
                .define(session, kind, name, &define(name), &mark(name))
                .await?
            {
                return Ok(Some(at));
            }
        }
        session.client.batch_execute("ROLLBACK").await?;
        Ok(None)
    }

    pub(super) async fn found(
        &self,
        session: &Session,
        kind: Kind,
        name: &str,
    ) -> Result<Found, tokio_postgres::Error> {
        let values = [(&name as &(dyn ToSql + Sync), Type::TEXT)];
        let row = session
            .client
            .query_typed_opt(kind.question(), &values)
            .await?;
        let Some(row) = row else {
            return Ok(Found::Nothing);
        };
        let (fits, comment): (bool, String) = (row.try_get(0)?, row.try_get(1)?);
        Ok(if fits && comment.starts_with(MARK) {
            Found::Ours(comment)
        } else {
            Found::Others
        })
    }

    /// Whether an object of ours reads the history of this sink.
    async fn serves_us(
        &self,
        session: &Session,
        kind: Kind,
        name: &str,
    ) -> Result<bool, tokio_postgres::Error> {
        let text = match kind {
            Kind::View => "SELECT pg_get_viewdef(to_regclass($1))",
            Kind::Function => {
                "SELECT prosrc FROM pg_proc WHERE oid = to_regprocedure($1 || '(timestamptz)')"
            }
        };
        let values = [(&name as &(dyn ToSql + Sync), Type::TEXT)];
        let row = session.client.query_typed_opt(text, &values).await?;
        let source: String = match row {
            Some(row) => row.try_get(0)?,
            None => return Ok(false),
        };
        let own = self.names.history_name().unwrap_or_default();
        Ok(source
            .split(|character: char| !(character.is_alphanumeric() || character == '_'))
            .any(|word| word == own))
    }

    pub(super) async fn define(
        &self,
        session: &Session,
        kind: Kind,
        name: &str,
        definition: &str,
        mark: &str,
    ) -> Result<Outcome, tokio_postgres::Error> {
        let client = &session.client;
        client.batch_execute("SAVEPOINT kollect_define").await?;
        if let Err(error) = client.batch_execute(definition).await {
            // A view can grow at its end in place, and a function keep its columns; no more.
            let fixed = [
                SqlState::INVALID_TABLE_DEFINITION,
                SqlState::INVALID_FUNCTION_DEFINITION,
            ];
            if !error.code().is_some_and(|code| fixed.contains(code)) {
                return Err(error);
            }
            client
                .batch_execute("ROLLBACK TO SAVEPOINT kollect_define")
                .await?;
            return Ok(Outcome::Fixed);
        }
        let on = kind.comment_on(name);
        let comment = format!("COMMENT ON {on} IS {}; COMMIT", literal(mark));
        client.batch_execute(&comment).await?;
        Ok(Outcome::Ready)
    }
}
