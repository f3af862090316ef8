//! Making the views that follow the profiles.

use kollect_api::sink::database::{POSTGRES_VIEW_COLUMNS, PostgresColumn, PostgresView};
use tokio_postgres::types::{ToSql, Type};

use super::{
    Plan,
    objects::{Found, Kind, Outcome},
};
use crate::postgres::{
    ddl,
    fault::Fault,
    session::Session,
    sql::{identifier, literal},
    views::{Step, step},
};

/// How often a view whose columns changed their type gets another name.
const NAMES: usize = 9;

/// The columns of a view after those that every view has.
const COLUMNS: &str = "SELECT coalesce(string_agg(attname::text || chr(10) || format_type(atttypid, NULL), \
     chr(10) ORDER BY attnum), '') FROM pg_attribute \
     WHERE attrelid = to_regclass($1) AND attnum > $2 AND NOT attisdropped";

impl Plan {
    /// Makes views as they are wanted, and drops those of targets that are gone. Gives what a person
    /// should know.
    pub(in crate::postgres) async fn follow(
        &self,
        session: &Session,
        wanted: &[PostgresView],
        gone: &[String],
    ) -> Result<Vec<String>, Fault> {
        let mut warnings = Vec::new();
        for view in wanted {
            match self.follow_one(session, view).await {
                Ok(warning) => warnings.extend(warning),
                Err(error) => {
                    let fault = self.fault("postgres create view", &error);
                    self.rollback(session).await?;
                    let name = self.names.qualified(&view.name);
                    warnings.push(format!("view {name} is not made: {}", fault.error));
                }
            }
        }
        let views = gone
            .iter()
            .flat_map(|target| (1..=NAMES).map(move |number| (target, number)));
        for (target, number) in views {
            let name = self.view_name(target, number);
            if let Err(error) = self.drop_unused(session, target, &name).await {
                let fault = self.fault("postgres drop view", &error);
                self.rollback(session).await?;
                tracing::info!("view {name} stays: {}", fault.error);
            }
        }
        Ok(warnings)
    }

    async fn follow_one(
        &self,
        session: &Session,
        view: &PostgresView,
    ) -> Result<Option<String>, tokio_postgres::Error> {
        self.begin_alone(session).await?;
        let usual = self.view_name(&view.name, 1);
        for number in 1..=NAMES {
            let name = self.view_name(&view.name, number);
            let columns = match self.found(session, Kind::View, &name).await? {
                Found::Others => break,
                Found::Nothing => view.columns.clone(),
                Found::Ours(_) => {
                    let found = self.columns_of(session, &name).await?;
                    match step(&found, &view.columns) {
                        Step::Elsewhere => continue,
                        Step::Nothing => {
                            session.client.batch_execute("COMMIT").await?;
                            return Ok(moved(&usual, &name));
                        }
                        Step::Grow(columns) => columns,
                    }
                }
            };
            let definition = self.definition(view, &name, columns);
            let mark = super::objects::mark(&definition);
            let defined = self.define(session, Kind::View, &name, &definition, &mark);
            match defined.await? {
                Outcome::Ready => return Ok(moved(&usual, &name)),
                Outcome::Fixed => {}
            }
        }
        session.client.batch_execute("ROLLBACK").await?;
        Ok(Some(format!(
            "{usual} exists and was not made by Kollect; it is left alone, and the target has no view"
        )))
    }

    /// The name of the view of a target, and of those that came after it.
    fn view_name(&self, target: &str, number: usize) -> String {
        match number {
            1 => self.names.qualified(target),
            _ => self.names.qualified(&format!("{target}_{number}")),
        }
    }

    fn definition(&self, view: &PostgresView, name: &str, columns: Vec<PostgresColumn>) -> String {
        let view = PostgresView {
            columns,
            ..view.clone()
        };
        let mut text = ddl::create_view(&self.names, &view, name);
        for column in &view.columns {
            let attribute = column.attribute.as_deref().unwrap_or(&column.name);
            text += &format!(
                ";\nCOMMENT ON COLUMN {name}.{} IS {}",
                identifier(&column.name),
                literal(&format!("attribute {attribute} of target {}", view.target))
            );
        }
        text
    }

    async fn columns_of(
        &self,
        session: &Session,
        name: &str,
    ) -> Result<Vec<(String, String)>, tokio_postgres::Error> {
        let common = i16::try_from(POSTGRES_VIEW_COLUMNS.len()).unwrap_or(i16::MAX);
        let values = [
            (&name as &(dyn ToSql + Sync), Type::TEXT),
            (&common, Type::INT2),
        ];
        let row = session.client.query_typed_one(COLUMNS, &values).await?;
        let text: &str = row.try_get(0)?;
        let mut lines = text.lines().map(str::to_owned);
        let mut columns = Vec::new();
        while let (Some(name), Some(type_)) = (lines.next(), lines.next()) {
            columns.push((name, type_));
        }
        Ok(columns)
    }

    /// Drops the view of a target that has no rows any more, of any cluster, unless somebody built
    /// on it.
    async fn drop_unused(
        &self,
        session: &Session,
        target: &str,
        name: &str,
    ) -> Result<(), tokio_postgres::Error> {
        self.begin_alone(session).await?;
        let found = self.found(session, Kind::View, name).await?;
        if !matches!(found, Found::Ours(_)) {
            return session.client.batch_execute("COMMIT").await;
        }
        let used = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE target_name = $1)",
            self.names.table()
        );
        let values = [(&target as &(dyn ToSql + Sync), Type::TEXT)];
        let used = session.client.query_typed_one(&used, &values).await?;
        if !used.try_get::<_, bool>(0)? {
            let drop = format!("DROP VIEW {name}");
            session.client.batch_execute(&drop).await?;
        }
        session.client.batch_execute("COMMIT").await
    }
}

/// What to say of a view that has another name than its target.
fn moved(usual: &str, name: &str) -> Option<String> {
    (usual != name).then(|| {
        format!(
            "view {usual} has a column whose type the profile has changed, and stays as it is; the \
             view of the target is {name}"
        )
    })
}
