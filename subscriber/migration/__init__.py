"""What a migration needs around the rows. The first part is its check,
the last its cutover.

::

    check_migration      asks publisher and target, changes nothing
      ├─ check_publisher     facts of the server and the role        ─▶ findings
      ├─ check_tables        facts of the published tables           ─▶ findings
      ├─ check_target        facts of the target and of this machine ─▶ findings
      ├─ scan_values         values that the target cannot hold      ─▶ findings
      └─ estimate_copy       sizes, and a sample of one second       ─▶ findings
    warn_at_creation     the cheap part of it, after CREATE SUBSCRIPTION
    findings             what a finding is
    cutover              the steps of a switch-over, see :mod:`subscriber.migration.cutover`

Facts are read at the edge (:mod:`subscriber.publisher`, :mod:`subscriber.targets`). The functions
that judge them are pure, so that each finding is tested without a server that has the problem.

*Rejected:* a dry run of CREATE SUBSCRIPTION that is rolled back. A replication slot cannot be
rolled back, and the first error would hide all others.
"""
