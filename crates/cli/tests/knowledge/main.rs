//! Nothing known, nothing deleted.
//!
//! The built program runs as a service account with the least rights it needs, behind an API
//! server that refuses, fails or stays silent about one thing at a time: when the program starts,
//! and while it runs. The database is full of rows, and a trigger records every row that is
//! deleted. None ever is; status and log name what is missing; and when it returns, rows follow
//! again.
//!
//! Cases run side by side: each has a namespace, a program and a troublesome API server of its own,
//! in front of one control plane and one database. Programs that look at the whole cluster take
//! turns, at a control plane of their own.

mod cases;
mod overload;
mod stage;
