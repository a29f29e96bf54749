# Permissions. The lists contain exactly the actions that the tool calls: tests/terraform/test_rights.py reads these blocks, and test_calls.py
# compares them with recorded calls. If you add a call, add its action here, in the list that names the reason.

locals {
  job_actions = {
    lake_list    = ["s3:ListBucket"]                                                              # ListObjectsV2; a missing object is 404, not 403
    lake_uploads = ["s3:ListBucketMultipartUploads"]                                              # S3A's committers look for uploads left behind
    lake_objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"] # get, head, copy; put, parts; delete
    landing      = ["s3:GetObject", "s3:DeleteObject"]                                            # read, copy from, delete what was archived
    landing_mark = ["s3:PutObject"]                                                               # whose landing it is, created once
    landed_files = ["s3:PutObject"]                                                               # `ingest`, `reconcile --repair`
    code_list    = ["s3:ListBucket"]                                                              # Hadoop lists before it downloads
    code_objects = ["s3:GetObject"]                                                               # main.py, the job zip, plans
    key          = ["kms:Decrypt", "kms:GenerateDataKey"]                                         # SSE-KMS; parts of uploads need both
    databases    = ["glue:GetDatabase", "glue:GetDatabases"]                                      # Hive client: exists?
    default      = ["glue:CreateDatabase"]                                                        # Spark, in an account without the database `default`
    functions    = ["glue:GetUserDefinedFunctions"]                                               # Hive client, when a session starts
    tables_read  = ["glue:GetTable", "glue:GetTables"]                                            # Spark, and the version before a publish
    tables_write = ["glue:CreateTable", "glue:UpdateTable"]                                       # tables, views; never DeleteTable
    partitions   = ["glue:GetPartition", "glue:GetPartitions", "glue:BatchGetPartition"]          # Spark, and what is registered already
    register     = ["glue:BatchCreatePartition"]                                                  # publish
    renew        = ["glue:BatchUpdatePartition", "glue:UpdatePartition"]                          # columns of an older one: by boto3, by the Hive client
    unregister   = ["glue:DeletePartition", "glue:BatchDeletePartition"]                          # vacuum: by the Hive client, by boto3
    log_groups   = ["logs:DescribeLogGroups"]                                                     # EMR Serverless, before it writes
    log_streams  = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]       # EMR Serverless, as the job
    log_objects  = ["s3:PutObject"]                                                               # report and log of a run; EMR, as the job
    notices      = ["sns:Publish"]                                                                # `notify:` targets
    metrics      = ["cloudwatch:PutMetricData"]                                                   # the alarms' metrics
    secret       = ["secretsmanager:GetSecretValue"]                                              # `hash_secret`
    secret_key   = ["kms:Decrypt"]                                                                # its own key
  }

  caller_actions = {
    application  = ["emr-serverless:StartJobRun", "emr-serverless:StartApplication"]  # submit, which starts one that is stopped
    job_runs     = ["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"]        # wait, cancel on kill
    job_tags     = ["emr-serverless:TagResource"]                                     # tags of a job, for cost allocation
    job_pages    = ["emr-serverless:GetDashboardForJobRun"]                           # the link to Spark's UI
    pass         = ["iam:PassRole"]                                                   # the job's role, to EMR Serverless only
    steps        = ["elasticmapreduce:AddJobFlowSteps", "elasticmapreduce:ListSteps"] # runner: emr-steps: add one, unless it is there
    steps_follow = ["elasticmapreduce:DescribeStep", "elasticmapreduce:CancelSteps"]  # wait, cancel on kill
    plans        = ["s3:PutObject"]                                                   # the job configuration of a run
    reports      = ["s3:GetObject"]                                                   # log and report of a job
    reports_list = ["s3:ListBucket"]                                                  # a report that is missing is 404, not 403
    lake_list    = ["s3:ListBucket"]                                                  # status, plan, waiting for an hour
    lake_state   = ["s3:GetObject"]                                                   # status, log, plan: Snapshots and ledger
    notices      = ["s3:PutObject"]                                                   # marks of sent schema notices
    discovered   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]                # tables of `discover:`; the probe for conditional puts
    samples      = ["s3:GetObject"]                                                   # landed files of such tables
    samples_key  = ["kms:Decrypt"]                                                    # their own key
    alerts       = ["sns:Publish"]                                                    # `notify:` targets: new schemas, failed and late tables
    key          = ["kms:Decrypt", "kms:GenerateDataKey"]                             # SSE-KMS
    metrics      = ["cloudwatch:PutMetricData"]                                       # the alarms' metrics
  }

  # Landing outside the warehouse: bucket → prefixes, and the keys of buckets that this module does not create.
  landing_prefixes = { for place in var.landing : coalesce(place.bucket, local.lake_bucket) => place.prefix... }
  landing_keys     = distinct(compact([for place in var.landing : place.kms_key_arn]))
  lake_prefixes    = distinct(concat([var.lake.warehouse], lookup(local.landing_prefixes, local.lake_bucket, [])))
  listed_prefixes  = merge(local.landing_prefixes, { (local.lake_bucket) = local.lake_prefixes })

  # IfExists, because S3 requires ListBucket without a prefix to report a missing object: with plain StringLike the tool would get 403
  # when it checks for the next Snapshot. The price: names (not contents) in the bucket can be listed without a prefix.
  list_statements = [
    for bucket, prefixes in local.listed_prefixes : {
      Effect    = "Allow"
      Action    = local.job_actions.lake_list
      Resource  = "arn:${local.partition}:s3:::${bucket}"
      Condition = { StringLikeIfExists = { "s3:prefix" = flatten([for prefix in prefixes : [prefix, "${prefix}/*"]]) } }
    }
  ]

  glue     = "arn:${local.partition}:glue:${local.region}:${local.account}"
  tables   = [for name in values(local.databases) : "${local.glue}:table/${name}/*"]
  names    = [for name in values(local.databases) : "${local.glue}:database/${name}"]
  own_keys = distinct(concat([local.kms_key_arn], compact([var.lake.kms_key_arn]), local.landing_keys, values(local.archive_key_arns)))

  hash_secrets = var.hash_secret[*]

  metric_statements = [for namespace in local.namespace[*] : {
    Effect    = "Allow"
    Action    = local.job_actions.metrics
    Resource  = "*"
    Condition = { StringEquals = { "cloudwatch:namespace" = namespace } }
  }]

  # Permissions of a job: for the EMR Serverless role, the cluster's instances, or a role of the user (output `job_policies`).
  job_policies = {
    storage = jsonencode({
      Version = "2012-10-17"
      Statement = concat(
        local.list_statements,
        [
          { Effect = "Allow", Action = local.job_actions.lake_uploads, Resource = local.lake_arn },
          { Effect = "Allow", Action = local.job_actions.lake_objects, Resource = "${local.lake_arn}/${var.lake.warehouse}/*" },
          {
            Effect    = "Allow"
            Action    = local.job_actions.code_list
            Resource  = local.code_arn
            Condition = { StringLikeIfExists = { "s3:prefix" = ["jobs", "jobs/*"] } }
          },
          { Effect = "Allow", Action = local.job_actions.code_objects, Resource = "${local.code_arn}/jobs/*" },
          { Effect = "Allow", Action = local.job_actions.key, Resource = local.own_keys },
        ],
        [for secret in local.hash_secrets : { Effect = "Allow", Action = local.job_actions.secret, Resource = secret.arn }],
        [for arn in compact(local.hash_secrets[*].kms_key_arn) : { Effect = "Allow", Action = local.job_actions.secret_key, Resource = arn }],
        [for bucket, prefixes in local.landing_prefixes : {
          Effect   = "Allow"
          Action   = local.job_actions.landing
          Resource = [for prefix in prefixes : "arn:${local.partition}:s3:::${bucket}/${prefix}/*"]
        }],
        # `prefix` may be the landing folder of a table, or have those of many
        [for bucket, prefixes in local.landing_prefixes : {
          Effect   = "Allow"
          Action   = local.job_actions.landing_mark
          Resource = flatten([for prefix in prefixes : [for place in [prefix, "${prefix}/*"] : "arn:${local.partition}:s3:::${bucket}/${place}/_compactor/*"]])
        }],
        [for place in var.landing : {
          Effect   = "Allow"
          Action   = local.job_actions.landed_files
          Resource = ["arn:${local.partition}:s3:::${coalesce(place.bucket, local.lake_bucket)}/${place.prefix}/*"]
        } if place.write],
      )
    })

    catalog = jsonencode({
      Version = "2012-10-17"
      Statement = [
        {
          # Every Spark session reads `default` and `global_temp`, and makes `default` where it is missing.
          Effect   = "Allow"
          Action   = local.job_actions.databases
          Resource = concat(["${local.glue}:catalog", "${local.glue}:database/default", "${local.glue}:database/global_temp"], local.names)
        },
        { Effect = "Allow", Action = local.job_actions.default, Resource = ["${local.glue}:catalog", "${local.glue}:database/default"] },
        {
          Effect = "Allow"
          Action = local.job_actions.functions
          Resource = concat(
            ["${local.glue}:catalog", "${local.glue}:database/default", "${local.glue}:userDefinedFunction/default/*"],
            local.names,
            [for name in values(local.databases) : "${local.glue}:userDefinedFunction/${name}/*"],
          )
        },
        {
          Effect = "Allow"
          Action = concat(
            local.job_actions.tables_read,
            local.job_actions.tables_write,
            local.job_actions.partitions,
            local.job_actions.register,
            local.job_actions.renew,
            local.job_actions.unregister,
          )
          Resource = concat(["${local.glue}:catalog"], local.names, local.tables)
        },
      ]
    })

    reporting = jsonencode({
      Version = "2012-10-17"
      Statement = concat(
        [
          { Effect = "Allow", Action = local.job_actions.log_objects, Resource = "${local.logs_arn}/jobs/*" },
          { Effect = "Allow", Action = local.job_actions.notices, Resource = local.topic_arn },
        ],
        local.metric_statements,
      )
    })
  }

  # Permissions to start, watch and cancel jobs.
  caller_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for application in aws_emrserverless_application.this : {
        Effect   = "Allow"
        Action   = local.caller_actions.application
        Resource = application.arn
      }],
      [for application in aws_emrserverless_application.this : {
        Effect   = "Allow"
        Action   = concat(local.caller_actions.job_runs, local.caller_actions.job_tags, local.caller_actions.job_pages)
        Resource = "${application.arn}/jobruns/*"
      }],
      [for role in aws_iam_role.job : {
        Effect    = "Allow"
        Action    = local.caller_actions.pass
        Resource  = role.arn
        Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.${local.dns}" } }
      }],
      [for cluster in aws_emr_cluster.this : {
        Effect   = "Allow"
        Action   = concat(local.caller_actions.steps, local.caller_actions.steps_follow)
        Resource = cluster.arn
      }],
      [for statement in local.list_statements : merge(statement, { Action = local.caller_actions.lake_list })],
      [
        # of the quarantine only why a record is there, never the record
        {
          Effect   = "Allow"
          Action   = local.caller_actions.lake_state
          Resource = [for path in ["_compactor/*", "quarantine/*.reason.json"] : "${local.lake_arn}/${var.lake.warehouse}/*/${path}"]
        },
        {
          Effect   = "Allow"
          Action   = local.caller_actions.notices
          Resource = [for path in ["notices/*", "runs/*", "last_run.json"] : "${local.lake_arn}/${var.lake.warehouse}/*/_compactor/${path}"]
        },
        { Effect = "Allow", Action = local.caller_actions.notices, Resource = "${local.lake_arn}/${var.lake.warehouse}/_runs/*" },
        { Effect = "Allow", Action = local.caller_actions.plans, Resource = "${local.code_arn}/jobs/*/plans/*" },
        { Effect = "Allow", Action = local.caller_actions.reports, Resource = "${local.logs_arn}/jobs/reports/*" },
        {
          Effect    = "Allow"
          Action    = local.caller_actions.reports_list
          Resource  = local.logs_arn
          Condition = { StringLikeIfExists = { "s3:prefix" = ["jobs/reports", "jobs/reports/*"] } }
        },
        { Effect = "Allow", Action = local.caller_actions.alerts, Resource = local.topic_arn },
        { Effect = "Allow", Action = local.caller_actions.key, Resource = concat([local.kms_key_arn], compact([var.lake.kms_key_arn])) },
      ],
      var.callers.discover ? [{ Effect = "Allow", Action = local.caller_actions.discovered, Resource = "${local.lake_arn}/${var.lake.warehouse}/_compactor/tables.d/*" }] : [],
      [for arn in local.landing_keys : { Effect = "Allow", Action = local.caller_actions.samples_key, Resource = arn } if var.callers.discover],
      [for bucket, prefixes in local.landing_prefixes : {
        Effect   = "Allow"
        Action   = local.caller_actions.samples
        Resource = [for prefix in prefixes : "arn:${local.partition}:s3:::${bucket}/${prefix}/*"]
      } if var.callers.discover],
      [for statement in local.metric_statements : merge(statement, { Action = local.caller_actions.metrics })],
    )
  })
}

resource "aws_iam_role" "job" {
  count = var.serverless == null ? 0 : 1

  name                 = local.role_names.job
  path                 = var.roles.path
  permissions_boundary = var.roles.permissions_boundary_arn
  description          = "Permissions of a compactor job on EMR Serverless"
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "emr-serverless.${local.dns}" }
      Action    = "sts:AssumeRole"
      Condition = {
        StringEquals = { "aws:SourceAccount" = local.account }
        ArnLike      = { "aws:SourceArn" = aws_emrserverless_application.this[0].arn }
      }
    }]
  })
}

resource "aws_iam_role_policy" "job" {
  for_each = { for key, policy in local.job_policies : key => policy if var.serverless != null }

  name   = each.key
  role   = aws_iam_role.job[0].id
  policy = each.value
}

resource "aws_iam_role_policy" "job_logs" {
  count = var.serverless == null ? 0 : 1

  name = "logs"
  role = aws_iam_role.job[0].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = local.job_actions.log_groups, Resource = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:*" },
      { Effect = "Allow", Action = local.job_actions.log_streams, Resource = "${aws_cloudwatch_log_group.jobs[0].arn}:*" },
    ]
  })
}

resource "aws_iam_role" "caller" {
  count = var.callers.trusted == null ? 0 : 1

  name                 = local.role_names.caller
  path                 = var.roles.path
  permissions_boundary = var.roles.permissions_boundary_arn
  description          = "Starts, watches and cancels compactor jobs"
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = var.callers.trusted.arns }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "caller" {
  for_each = merge(
    var.callers.roles,
    { for role in aws_iam_role.caller : "caller" => role.name },
    { for role in aws_iam_role.mwaa : "mwaa" => role.name },
  )

  name   = "${var.name}-caller"
  role   = each.value
  policy = local.caller_policy
}
