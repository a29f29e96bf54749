# Three buckets: the lake (the tables), code (job packages, plans, DAGs), logs (of jobs, and of accesses to the other two).

locals {
  # Buckets that the module creates: key → name. It does not change an existing lake.
  buckets = merge(
    var.lake.create ? { lake = local.lake_bucket } : {},
    { code = local.code_bucket, logs = local.logs_bucket },
  )

  # S3 does not deliver access logs into a bucket whose default encryption is a KMS key.
  keys = { for role, name in local.buckets : role => role == "logs" ? null : local.kms_key_arn }

  # Prefixes whose objects expire as logs do. Of the plans those of this version: no prefix has all, and not the packages beside them.
  expiring = { lake = [], code = ["jobs/${var.package_version}/plans/"], logs = ["jobs/", "access/"] }

  noncurrent_days = { lake = var.lake.noncurrent_days, code = 90, logs = 7 }

  tls_only = {
    for role, name in local.buckets : role => {
      Sid       = "TlsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = ["arn:${local.partition}:s3:::${name}", "arn:${local.partition}:s3:::${name}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }
  }

  # A second guard in addition to the tool's own conditions: no other writer can replace a Snapshot blindly either. The tool creates Snapshots
  # with If-None-Match, and vacuum replaces expired ones with If-Match. The condition on ObjectCreationOperation excludes the parts of multipart
  # uploads, which cannot have these headers.
  snapshots_once = {
    Sid       = "SnapshotsAreWrittenOnce"
    Effect    = "Deny"
    Principal = "*"
    Action    = "s3:PutObject"
    Resource  = "${local.lake_arn}/${var.lake.warehouse}/*/_compactor/snapshots/*.json"
    Condition = {
      Null = { "s3:if-none-match" = "true", "s3:if-match" = "true" }
      Bool = { "s3:ObjectCreationOperation" = "true" }
    }
  }

  access_logs = {
    Sid       = "AccessLogs"
    Effect    = "Allow"
    Principal = { Service = "logging.s3.amazonaws.com" }
    Action    = "s3:PutObject"
    Resource  = "${local.logs_arn}/access/*"
    Condition = {
      StringEquals = { "aws:SourceAccount" = local.account }
      ArnLike      = { "aws:SourceArn" = [local.lake_arn, local.code_arn] }
    }
  }

  bucket_statements = {
    lake = var.lake.guard_snapshots ? [local.snapshots_once] : []
    code = []
    logs = [local.access_logs]
  }
}

resource "aws_s3_bucket" "this" {
  for_each = local.buckets

  bucket        = each.value
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "this" {
  for_each = local.buckets

  bucket                  = aws_s3_bucket.this[each.key].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  for_each = local.buckets

  bucket = aws_s3_bucket.this[each.key].id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "this" {
  for_each = local.buckets

  bucket = aws_s3_bucket.this[each.key].id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  for_each = local.buckets

  bucket = aws_s3_bucket.this[each.key].id

  rule {
    # A bucket key needs one KMS request for many objects. Without it, small files would cost more in KMS requests than in storage.
    bucket_key_enabled = each.key != "logs"

    apply_server_side_encryption_by_default {
      sse_algorithm     = each.key == "logs" ? "AES256" : "aws:kms"
      kms_master_key_id = local.keys[each.key]
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  for_each = local.buckets

  bucket = aws_s3_bucket.this[each.key].id
  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat([local.tls_only[each.key]], local.bucket_statements[each.key])
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}

resource "aws_s3_bucket_logging" "this" {
  for_each = { for role, name in local.buckets : role => name if role != "logs" }

  bucket        = aws_s3_bucket.this[each.key].id
  target_bucket = aws_s3_bucket.this["logs"].id
  target_prefix = "access/${each.key}/"
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  for_each = local.buckets

  bucket = aws_s3_bucket.this[each.key].id

  # No rule expires files that a Snapshot names: only `compactor versions vacuum` knows them.
  rule {
    id     = "leftovers"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }

    noncurrent_version_expiration {
      noncurrent_days = local.noncurrent_days[each.key]
    }

    expiration {
      expired_object_delete_marker = true
    }
  }

  dynamic "rule" {
    for_each = each.key == "lake" ? var.archive.tables : toset([])

    content {
      id     = "archive-${rule.value}"
      status = "Enabled"

      filter {
        prefix = "${var.lake.warehouse}/${rule.value}/archive/"
      }

      transition {
        days          = var.archive.transition_days
        storage_class = var.archive.storage_class
      }

      dynamic "expiration" {
        for_each = var.archive.expiration_days == null ? [] : [var.archive.expiration_days]

        content {
          days = expiration.value
        }
      }
    }
  }

  dynamic "rule" {
    for_each = local.expiring[each.key]

    content {
      id     = "logs-${trimsuffix(rule.value, "/")}"
      status = "Enabled"

      filter {
        prefix = rule.value
      }

      expiration {
        days = var.log_retention_days
      }
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}
