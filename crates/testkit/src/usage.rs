//! What the kernel knows about a running process.

use std::{collections::BTreeSet, fs, io};

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
    Ok(Usage {
        resident: kib("VmRSS:") / 1024.0,
        peak: kib("VmHWM:") / 1024.0,
        cpu: stat(pid)?.own,
    })
}

/// Processor time of a process and all children it ever had, in seconds.
pub fn family_cpu(pid: u32) -> io::Result<f64> {
    let parent = stat(pid)?;
    let mut cpu = parent.own + parent.ended_children;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(other) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Whoever ended meanwhile is counted by its parent.
        if let Ok(child) = stat(other)
            && child.parent == pid
        {
            cpu += child.own;
        }
    }
    Ok(cpu)
}

/// How many connections a process has to a port of this machine.
pub fn connections(pid: u32, port: u16) -> io::Result<usize> {
    const ESTABLISHED: &str = "01";
    let mut sockets = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // A descriptor may be closed while we look.
        if let Ok(target) = fs::read_link(entry?.path())
            && let Some(inode) = target
                .to_str()
                .and_then(|target| target.strip_prefix("socket:["))
        {
            sockets.insert(inode.trim_end_matches(']').to_owned());
        }
    }
    let remote = format!(":{port:04X}");
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    let ours = table.lines().skip(1).filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 9
            && fields[2].ends_with(&remote)
            && fields[3] == ESTABLISHED
            && sockets.contains(fields[9])
    });
    Ok(ours.count())
}

struct Stat {
    parent: u32,
    own: f64,
    ended_children: f64,
}

fn stat(pid: u32) -> io::Result<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program stands in parentheses and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let seconds = |at: usize| {
        let ticks = fields.get(at).and_then(|field| field.parse::<f64>().ok());
        ticks.unwrap_or(0.0) / 100.0
    };
    Ok(Stat {
        parent: fields
            .get(1)
            .and_then(|field| field.parse().ok())
            .unwrap_or(0),
        own: seconds(11) + seconds(12),
        ended_children: seconds(13) + seconds(14),
    })
}
