//! PgBouncer in front of a PostgreSQL server: each transaction may meet another process of it.

use anyhow::Result;

use crate::account::Account;
use crate::postgres::USER;
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{Postgres, debian, ports};

/// A pooler in transaction mode.
pub struct PgBouncer {
    _service: Service,
    port: u16,
    _run: RunDir,
}

impl PgBouncer {
    /// Starts one with so many connections to the server per database. Whoever comes is let in.
    pub fn start(server: &Postgres, connections: usize) -> Result<Self> {
        let program = debian::ensure("pgbouncer", || {
            debian::first_file(["/usr/sbin/pgbouncer".into(), "/usr/bin/pgbouncer".into()])
        })?;
        let run = RunDir::new("pgbouncer")?;
        let port = ports::free()?;
        let configuration = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={} user={USER} password={}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             max_client_conn = 500\n\
             default_pool_size = {connections}\n",
            server.port(),
            server.password(),
        );
        let configuration = run.write_private("pgbouncer.ini", &configuration)?;
        let me = Account::current()?;
        let mut pooler = Program::new("pgbouncer", program).arg(&configuration);
        // It refuses to run as root.
        if me.is_root() {
            let user = Account::unprivileged(&["postgres"])?;
            user.own(&configuration)?;
            pooler = pooler.run_as(&user);
        }
        let probe = Program::new("pg_isready", server.program("pg_isready"))
            .flag("host", "127.0.0.1")
            .flag("port", port.to_string());
        let service = Service::start(pooler, run.path(), move || probe.run().map(|_| ()))?;
        Ok(Self {
            _service: service,
            port,
            _run: run,
        })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}
