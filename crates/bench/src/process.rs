//! What the kernel knows about a running process.

use std::{fs, io};

/// Memory and time of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Resident memory now, in MiB.
    pub resident: f64,
    /// The most resident memory so far, in MiB.
    pub peak: f64,
    /// Processor time so far, in seconds.
    pub cpu: f64,
}

/// What a process uses.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program stands in parentheses and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || {
        fields
            .next()
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    let cpu = (ticks() + ticks()) / 100.0;
    Ok(Usage {
        resident: kib("VmRSS:") / 1024.0,
        peak: kib("VmHWM:") / 1024.0,
        cpu,
    })
}
