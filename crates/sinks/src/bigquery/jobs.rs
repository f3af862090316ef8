//! Jobs: begun once, waited for, and never begun twice.
//!
//! A job goes on whether or not somebody waits for it. So every job has a name of its own before it
//! is sent: a repetition after a lost answer finds the job instead of beginning another. A job that
//! was given up is settled before anything else is done to the same rows: it has ended, or its name
//! is taken by a job that does nothing, so that it never begins.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use super::{
    api::{Api, Call},
    fault::{Fault, failed},
    names::{Names, Partition, segment},
    requests::{
        DmlStats, Job, JobConfiguration, JobList, JobReference, JobRequest, Labels, Parameter,
        QueryConfiguration, ResultRow, Results,
    },
};
use crate::{error::SinkError, layout::body::hex};

/// How long the service holds an answer back while a job runs.
const HOLD: u32 = 10_000;
/// After this time the service ends a job.
const LONGEST: &str = "900000";
/// Rows of one page of results.
const PAGE: u32 = 20_000;
/// Pages of one result: more than any inventory has.
const PAGES: usize = 2_000;
/// A pause between two questions, for servers that answer at once.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Jobs that are looked at for those of an earlier process.
const LISTED: u32 = 200;

/// The state of a job that has ended, well or not.
const DONE: &str = "DONE";

/// A statement with its parameters.
pub(super) struct Statement<'s> {
    pub(super) text: &'s str,
    pub(super) parameters: &'s [Parameter<'s>],
}

impl Statement<'_> {
    /// Does nothing.
    pub(super) const NOTHING: Self = Self {
        text: "SELECT 1",
        parameters: &[],
    };

    /// The statement as the service takes it.
    pub(super) fn encoded(&self) -> Result<Vec<u8>, SinkError> {
        let configuration = JobConfiguration {
            job_timeout_ms: Some(LONGEST),
            labels: Some(Labels {
                managed_by: "kollect",
            }),
            ..self.configuration()
        };
        serde_json::to_vec(&configuration).map_err(|_| unwritten())
    }

    fn configuration(&self) -> JobConfiguration<'_> {
        JobConfiguration {
            query: QueryConfiguration {
                query: self.text,
                use_legacy_sql: false,
                use_query_cache: false,
                parameter_mode: (!self.parameters.is_empty()).then_some("NAMED"),
                query_parameters: self.parameters,
            },
            dry_run: None,
            job_timeout_ms: None,
            labels: None,
        }
    }
}

fn unwritten() -> SinkError {
    SinkError::terminal("the statement makes no valid request")
}

/// Where jobs run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jobs<'j> {
    pub(super) api: &'j Api,
    pub(super) names: &'j Names,
    pub(super) location: Option<&'j str>,
}

/// What the names of all jobs of a partition begin with.
pub(super) fn prefix(names: &Names, partition: &Partition<'_>) -> String {
    let table = names.quoted();
    let parts = [
        table.as_str(),
        partition.cluster,
        partition.namespace,
        partition.name,
    ];
    format!("kollect_{}_", &digest(parts.map(str::as_bytes))[..16])
}

/// The name of a job: the same for the same statement of the same delivery, and no other. `origin`
/// is a text that no other sink has, so that the same rows may come again.
pub(super) fn name(
    prefix: &str,
    origin: &str,
    at: Timestamp,
    number: u64,
    configuration: &[u8],
) -> String {
    let at = at.as_nanosecond().to_be_bytes();
    let number = number.to_be_bytes();
    let content = digest([origin.as_bytes(), &at, &number, configuration]);
    format!("{prefix}{}", &content[..32])
}

fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

impl Jobs<'_> {
    /// Runs a job of this name to its end. One that is there already is waited for.
    pub(super) async fn run(
        &self,
        id: &str,
        configuration: &[u8],
    ) -> Result<Option<DmlStats>, Fault> {
        let request = self.request(id, configuration)?;
        let call = Call::post(self.names.jobs_path(), request);
        let begun: Result<Job, Fault> = self.api.send(&call).await;
        let job = match begun {
            Ok(job) => job,
            Err(fault) if fault.is_duplicate() => Job::default(),
            Err(fault) => return Err(fault.at("run")),
        };
        let job = if is_done(&job) {
            job
        } else {
            let waited = self.wait(id).await;
            // The job itself knows best why it failed.
            let job = match waited {
                Err(fault) if fault.status.is_none() => return Err(fault.at("wait").while_open()),
                _ => {
                    let looked = self.look(id).await;
                    looked.map_err(|fault| fault.at("status").while_open())?
                }
            };
            if !is_done(&job) {
                waited.map_err(|fault| fault.at("wait").while_open())?;
            }
            job
        };
        match &job.status.error_result {
            Some(error) => Err(failed(error).at("status")),
            None => Ok(job.statistics.query.dml_stats),
        }
    }

    /// The request for a job.
    fn request(&self, id: &str, configuration: &[u8]) -> Result<Vec<u8>, SinkError> {
        let reference = JobReference {
            project_id: &self.names.project,
            job_id: Some(id),
            location: self.location,
        };
        let mut request = b"{\"jobReference\":".to_vec();
        serde_json::to_writer(&mut request, &reference).map_err(|_| unwritten())?;
        request.extend_from_slice(b",\"configuration\":");
        request.extend_from_slice(configuration);
        request.push(b'}');
        Ok(request)
    }

    /// The rows of a query, page by page.
    pub(super) async fn rows(
        &self,
        id: &str,
        mut each: impl FnMut(ResultRow),
    ) -> Result<(), Fault> {
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let mut path = format!("{}?maxResults={PAGE}", self.names.results_path(id));
            self.locate(&mut path);
            if let Some(token) = &token {
                path += &format!("&pageToken={}", segment(token));
            }
            let page: Results = self.api.send(&Call::get(path)).await?;
            page.rows.into_iter().for_each(&mut each);
            // A server that repeats itself is not asked for ever.
            match page.page_token.filter(|next| !next.is_empty()) {
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => return Ok(()),
            }
        }
        Err(SinkError::transient("the result has no end").into())
    }

    /// Asks for a query to be checked, without running it.
    pub(super) async fn dry_run(&self, statement: &Statement<'_>) -> Result<(), Fault> {
        let request = JobRequest {
            job_reference: JobReference {
                project_id: &self.names.project,
                job_id: None,
                location: self.location,
            },
            configuration: JobConfiguration {
                dry_run: Some(true),
                ..statement.configuration()
            },
        };
        let request = serde_json::to_vec(&request).map_err(|_| unwritten())?;
        let call = Call::post(self.names.jobs_path(), request);
        let job: Job = self.api.send(&call).await?;
        match &job.status.error_result {
            Some(error) => Err(failed(error)),
            None => Ok(()),
        }
    }

    /// Makes sure that a job that was given up does nothing any more.
    pub(super) async fn settle(&self, id: &str) -> Result<(), Fault> {
        // Twice: it may begin between question and request.
        for _ in 0..2 {
            match self.look(id).await {
                Ok(job) if is_done(&job) => return Ok(()),
                Ok(_) => return self.wait_out(id).await,
                Err(fault) if fault.is_missing() => {}
                Err(fault) => return Err(fault),
            }
            let request = self.request(id, &Statement::NOTHING.encoded()?)?;
            let call = Call::post(self.names.jobs_path(), request);
            let taken: Result<Job, Fault> = self.api.send(&call).await;
            match taken {
                Ok(_) => return Ok(()),
                Err(fault) if fault.is_duplicate() => {}
                Err(fault) => return Err(fault),
            }
        }
        self.wait_out(id).await
    }

    /// Waits for jobs that an earlier process left running. Whoever may not list jobs goes on: the
    /// next full delivery would put right what such a job does.
    pub(super) async fn settle_earlier(&self, prefix: &str) -> Result<(), Fault> {
        let mut earlier = Vec::new();
        for state in ["running", "pending"] {
            let path = format!(
                "{}?stateFilter={state}&projection=minimal&maxResults={LISTED}",
                self.names.jobs_path()
            );
            let listed: Result<JobList, Fault> = self.api.send(&Call::get(path)).await;
            match listed {
                Ok(list) => earlier.extend(
                    list.jobs
                        .into_iter()
                        .filter(|job| job.status.state != DONE)
                        .map(|job| job.job_reference.job_id)
                        .filter(|id| id.starts_with(prefix)),
                ),
                Err(fault) if matches!(fault.error, SinkError::Transient(_)) => return Err(fault),
                Err(fault) => {
                    tracing::debug!(reason = %fault.error, "jobs cannot be listed");
                    return Ok(());
                }
            }
        }
        for id in earlier {
            self.wait_out(&id).await?;
        }
        Ok(())
    }

    /// Waits for the end of a job, whatever it is.
    async fn wait_out(&self, id: &str) -> Result<(), Fault> {
        let mut pause = PAUSE;
        loop {
            match self.look(id).await {
                Ok(job) if is_done(&job) => return Ok(()),
                Ok(_) => {}
                Err(fault) if fault.is_missing() => return Ok(()),
                Err(fault) => return Err(fault),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn wait(&self, id: &str) -> Result<(), Fault> {
        let mut path = format!(
            "{}?maxResults=0&timeoutMs={HOLD}",
            self.names.results_path(id)
        );
        self.locate(&mut path);
        let call = Call::get(path);
        let mut pause = PAUSE;
        loop {
            let results: Results = self.api.send(&call).await?;
            if results.job_complete {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn look(&self, id: &str) -> Result<Job, Fault> {
        let mut path = format!("{}/{}", self.names.jobs_path(), segment(id));
        if let Some(location) = self.location {
            path += &format!("?location={}", segment(location));
        }
        self.api.send(&Call::get(path)).await
    }

    fn locate(&self, path: &mut String) {
        if let Some(location) = self.location {
            *path += &format!("&location={}", segment(location));
        }
    }
}

fn is_done(job: &Job) -> bool {
    job.status.state == DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_statement_of_one_delivery() {
        let names = Names {
            project: "acme".to_owned(),
            dataset: "inventory".to_owned(),
            table: "items".to_owned(),
        };
        let partition = Partition {
            namespace: "team-a",
            name: "all",
            cluster: "west",
        };
        let prefix = prefix(&names, &partition);
        let at: Timestamp = "2026-01-15T12:00:01Z".parse().unwrap();
        let later: Timestamp = "2026-01-15T12:00:02Z".parse().unwrap();
        let first = name(&prefix, "sink", at, 0, b"rows");
        assert_eq!(first, name(&prefix, "sink", at, 0, b"rows"));
        for other in [
            name(&prefix, "other", at, 0, b"rows"),
            name(&prefix, "sink", later, 0, b"rows"),
            name(&prefix, "sink", at, 1, b"rows"),
            name(&prefix, "sink", at, 0, b"more"),
        ] {
            assert_ne!(first, other);
            assert!(other.starts_with(&prefix));
        }
        // Letters, digits, dashes and underscores, at most 1,024 of them.
        assert!(
            first
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_')
        );
        let neighbour = Partition {
            cluster: "east",
            ..partition
        };
        assert_ne!(prefix, super::prefix(&names, &neighbour));
    }
}
