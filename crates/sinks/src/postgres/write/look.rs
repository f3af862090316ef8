//! Looking at a partition without reading its rows, and saying that somebody did.

use futures::future::join;
use tokio_postgres::{Row, types::Type};

use super::{CHECK, Writer};
use crate::postgres::{
    fault::Fault,
    session::{Parameter, Session},
    shards::Digests,
};

/// What a partition looks like while nobody touches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::postgres) struct Print {
    text: String,
    incarnation: usize,
    rows: i64,
}

impl Print {
    /// Reads `incarnation#rows/versions`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (incarnation, rest) = text.rsplit_once('#')?;
        let rows = rest.split_once('/')?.0.parse().ok()?;
        Some(Self {
            text: text.to_owned(),
            incarnation: incarnation.len(),
            rows,
        })
    }

    /// Which table it is.
    pub(super) fn incarnation(&self) -> &str {
        &self.text[..self.incarnation]
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }
}

const SIGN: &str = "postgres record of inventories";

impl Writer<'_> {
    /// The statement that looks at a few rows: as closely as the server can.
    pub(super) fn look_text(&self) -> String {
        if self.statements().has_digests() {
            self.statements().digest()
        } else {
            self.statements().read_incarnation()
        }
    }

    /// Its parameters, of those of the partition.
    pub(super) fn look_parameters<'p>(
        &self,
        partition: &'p [Parameter<'p>],
    ) -> &'p [Parameter<'p>] {
        if self.statements().has_digests() {
            partition
        } else {
            &[]
        }
    }

    /// Whether nobody has touched the partition since it looked like this. `sign` puts it on record
    /// if so.
    pub(in crate::postgres) async fn is_untouched(
        &self,
        session: &mut Session,
        print: &Print,
        sign: bool,
    ) -> Result<bool, Fault> {
        let row = self.looked(session, &self.statements().print()).await?;
        let now: String = row.try_get(0).map_err(self.stage(CHECK))?;
        let same = now == print.text;
        if sign && same {
            self.sign(session, print.rows, false).await?;
        }
        self.commit(session).await?;
        Ok(same)
    }

    /// The digests of the partition, and what it looks like. `sign` puts it on record if they are
    /// as expected.
    pub(in crate::postgres) async fn digests(
        &self,
        session: &mut Session,
        expected: Option<&Digests>,
        sign: bool,
    ) -> Result<Option<(Print, Digests)>, Fault> {
        let row = self.looked(session, &self.statements().digest()).await?;
        let print: &str = row.try_get(0).map_err(self.stage(CHECK))?;
        let digests: &str = row.try_get(1).map_err(self.stage(CHECK))?;
        let found = Print::read(print).zip(Digests::read(digests));
        if let Some((_, digests)) = &found
            && sign
            && Some(digests) == expected
        {
            self.sign(session, digests.rows(), false).await?;
        }
        self.commit(session).await?;
        Ok(found)
    }

    /// Begins a transaction with one look.
    async fn looked(&self, session: &mut Session, text: &str) -> Result<Row, Fault> {
        let [look] = self.questions(session, [text]).await?;
        let partition = self.partition();
        let (begun, row) = join(
            session.client.batch_execute(&self.plan.begin),
            session.one(&look, &partition),
        )
        .await;
        begun.map_err(self.stage("postgres export: begin tx"))?;
        row.map_err(self.stage(CHECK))
    }

    /// Puts on record how many rows there are, in the transaction that knows it.
    pub(super) async fn sign(
        &self,
        session: &Session,
        rows: i64,
        changed: bool,
    ) -> Result<(), Fault> {
        if !self.statements().has_inventories() {
            return Ok(());
        }
        let healthy = self.held.is_empty();
        let mut values = self.partition();
        values.push((&self.at, Type::TIMESTAMPTZ));
        values.push((&rows, Type::INT8));
        values.push((&changed, Type::BOOL));
        values.push((&healthy, Type::BOOL));
        let text = self.statements().sign();
        let signed = session.client.execute_typed(&text, &values).await;
        signed.map(|_| ()).map_err(self.stage(SIGN))
    }

    /// Takes the inventory off the record.
    pub(super) async fn unsign(&self, session: &Session) -> Result<(), Fault> {
        if !self.statements().has_inventories() {
            return Ok(());
        }
        let text = self.statements().unsign();
        let values = self.partition();
        let removed = session.client.execute_typed(&text, &values).await;
        removed.map(|_| ()).map_err(self.stage(SIGN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_are_read_or_refused() {
        let print = Print::read("1763.5/16401:16401#200/-77").unwrap();
        assert_eq!(
            (print.incarnation(), print.rows()),
            ("1763.5/16401:16401", 200)
        );
        for nonsense in ["", "1763/1:1", "1763/1:1#", "x#y/1", "x#200"] {
            assert_eq!(Print::read(nonsense), None, "{nonsense}");
        }
    }
}
